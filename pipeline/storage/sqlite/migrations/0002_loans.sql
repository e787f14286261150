-- Passages lent to who embeds them, and until when, so that two do not do the same.
CREATE TABLE loan (
    org TEXT NOT NULL,
    passage INTEGER NOT NULL,
    space TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (org, passage, space)
) STRICT, WITHOUT ROWID;
