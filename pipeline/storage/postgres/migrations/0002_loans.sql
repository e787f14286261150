-- Passages lent to who embeds them, and until when, so that two do not do the same.
CREATE TABLE remit.loan (
    org text COLLATE "C" NOT NULL,
    passage bigint NOT NULL,
    space text COLLATE "C" NOT NULL,
    shelf bigint NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (org, passage, space)
);
