-- What was said before and after a turn of a conversation.
CREATE INDEX memory_in_time ON memory (org, shelf, created_at, id) WHERE source = 'session';
