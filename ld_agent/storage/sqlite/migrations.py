"""The schema as numbered, append-only steps: step n takes a store from version n - 1 to n. Never edit a released one."""

MIGRATIONS: tuple[str, ...] = (
    # 1: conversations, what was said, what is remembered of it and who is known to be how
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

    CREATE TABLE conversation (
        pk INTEGER PRIMARY KEY AUTOINCREMENT,   -- never given twice, so that no row can outlive its conversation
        id TEXT NOT NULL UNIQUE,
        agent TEXT NOT NULL,
        utterances INTEGER NOT NULL DEFAULT 0,  -- ids given so far; deleting a row gives none back
        records INTEGER NOT NULL DEFAULT 0,
        traits INTEGER NOT NULL DEFAULT 0
    );

    CREATE TABLE session (
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        number INTEGER NOT NULL,
        closed INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (conversation, number)
    ) WITHOUT ROWID;

    CREATE TABLE utterance (
        pk INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        id TEXT NOT NULL,
        session INTEGER NOT NULL,
        speaker TEXT NOT NULL,
        text TEXT NOT NULL,
        at INTEGER NOT NULL,                    -- microseconds since the epoch, UTC
        extracted INTEGER NOT NULL DEFAULT 0,   -- its traits are in the persona bank
        UNIQUE (conversation, id)
    );
    CREATE INDEX utterance_session ON utterance (conversation, session, pk);
    CREATE INDEX utterance_pending ON utterance (conversation, pk) WHERE extracted = 0;

    CREATE TABLE digested (                     -- a view has taken a closed session in
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        view TEXT NOT NULL,
        session INTEGER NOT NULL,
        PRIMARY KEY (conversation, view, session)
    ) WITHOUT ROWID;

    CREATE TABLE record (
        pk INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        id TEXT NOT NULL,
        view TEXT NOT NULL,
        session INTEGER NOT NULL,
        text TEXT NOT NULL,
        at INTEGER NOT NULL,
        topics TEXT NOT NULL,                   -- JSON list, sorted
        sources TEXT NOT NULL,                  -- JSON list of utterance ids
        fallback INTEGER NOT NULL DEFAULT 0,
        details TEXT NOT NULL DEFAULT '{}',     -- JSON object, what only this view knows
        vector BLOB,                            -- float32; NULL: not encoded yet
        UNIQUE (conversation, id)
    );
    CREATE INDEX record_view ON record (conversation, view, pk);

    CREATE TABLE trait (
        pk INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        id TEXT NOT NULL,
        speaker TEXT NOT NULL,
        text TEXT NOT NULL,
        at INTEGER NOT NULL,
        source TEXT NOT NULL,                   -- id of the utterance that revealed it; '' for a configured persona
        last_at INTEGER NOT NULL,
        mentions INTEGER NOT NULL DEFAULT 1,
        superseded_by TEXT,
        vector BLOB,
        UNIQUE (conversation, id)
    );
    CREATE INDEX trait_speaker ON trait (conversation, speaker, pk);
    """,
    # 2: views that take utterances in one by one
    """
    CREATE TABLE observed (                     -- a view has taken an utterance in, whether or not it kept something
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        view TEXT NOT NULL,
        utterance TEXT NOT NULL,
        PRIMARY KEY (conversation, view, utterance)
    ) WITHOUT ROWID;
    """,
    # 3: what was said behind each record, turn by turn, for scorers that look at it; derived, rebuilt where missing
    """
    CREATE TABLE passage (
        record INTEGER PRIMARY KEY REFERENCES record ON DELETE CASCADE,
        words TEXT NOT NULL,                    -- JSON: speakers, stems of the turns, stems of the text's sentences
        vectors BLOB NOT NULL                   -- a float32 scale each, then a signed byte a dimension
    );
    """,
    # 4: threads, who speaks, when a view was enabled, work that keeps failing, changes by hand, kept indexes
    """
    ALTER TABLE session ADD COLUMN thread TEXT NOT NULL DEFAULT '';
    CREATE INDEX session_thread ON session (conversation, thread, number);
    CREATE INDEX session_open ON session (conversation, thread) WHERE closed = 0;

    ALTER TABLE conversation ADD COLUMN edits INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE record ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE trait ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX record_session ON record (conversation, session, pk);
    CREATE INDEX record_pinned ON record (conversation) WHERE pinned = 1;
    CREATE INDEX record_bare ON record (pk) WHERE vector IS NULL;

    CREATE TABLE speaker (                      -- everyone who has spoken, by the first utterance
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        name TEXT NOT NULL,
        first INTEGER NOT NULL,
        PRIMARY KEY (conversation, name)
    ) WITHOUT ROWID;
    INSERT INTO speaker SELECT conversation, speaker, min(pk) FROM utterance GROUP BY conversation, speaker;
    CREATE TRIGGER speaker_known AFTER INSERT ON utterance
        BEGIN INSERT OR IGNORE INTO speaker VALUES (new.conversation, new.speaker, new.pk); END;

    CREATE TABLE enabled (                      -- since when a view takes sessions in, and how far it has come
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        view TEXT NOT NULL,
        since INTEGER NOT NULL,                 -- sessions up to this one ended before
        through INTEGER NOT NULL,               -- every session after since and up to this one is digested
        PRIMARY KEY (conversation, view)
    ) WITHOUT ROWID;

    CREATE TABLE verdict (                      -- the reply's call has decided about an utterance that is not observed yet
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        view TEXT NOT NULL,
        utterance TEXT NOT NULL,
        worth INTEGER NOT NULL,
        PRIMARY KEY (conversation, view, utterance)
    ) WITHOUT ROWID;

    CREATE TABLE failure (                      -- pending work that failed
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        work TEXT NOT NULL,                     -- 'traits' or the view's name
        item TEXT NOT NULL,                     -- utterance id or session number
        attempts INTEGER NOT NULL,
        error TEXT NOT NULL,
        PRIMARY KEY (conversation, work, item)
    ) WITHOUT ROWID;

    CREATE TABLE change (                       -- what a person edited, pinned or had forgotten
        pk INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        target TEXT NOT NULL,                   -- id of a record or trait
        action TEXT NOT NULL,                   -- edit, forget, pin, unpin
        at INTEGER NOT NULL,
        before TEXT NOT NULL
    );
    CREATE INDEX change_conversation ON change (conversation, pk);

    CREATE TABLE snapshot (                     -- an index as it was last kept; derived
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        view TEXT NOT NULL,
        last_key INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (conversation, view)
    );
    """,
    # 5: turns that were edited or answered again, and what the server keeps: keys, and which request got which answer
    """
    ALTER TABLE utterance ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;

    CREATE TABLE api_key (
        prefix TEXT PRIMARY KEY,                -- the key's first characters, to tell keys apart
        hash TEXT NOT NULL UNIQUE,              -- SHA-256 of the whole key, which is random
        tenant TEXT NOT NULL,
        scopes TEXT NOT NULL,                   -- JSON list
        rate INTEGER,                           -- requests a minute; NULL: the server's default
        created INTEGER NOT NULL,
        revoked INTEGER
    ) WITHOUT ROWID;

    CREATE TABLE answer (                       -- what a request was answered with, so that repeating it stores nothing
        id TEXT PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        thread TEXT NOT NULL,
        request TEXT,                           -- the caller's Idempotency-Key
        fingerprint TEXT NOT NULL,              -- SHA-256 of the request's body
        reply TEXT NOT NULL,                    -- the utterance's id; its text is kept once
        finish TEXT NOT NULL,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        at INTEGER NOT NULL,
        UNIQUE (conversation, request)
    ) WITHOUT ROWID;
    """,
    # 6: by which channel a text reached the memory, and who said it
    """
    ALTER TABLE utterance ADD COLUMN channel TEXT NOT NULL DEFAULT 'chat';
    -- of a record: the least trusted channel of all it was made from, and a JSON list of names without the agent's
    ALTER TABLE record ADD COLUMN channel TEXT NOT NULL DEFAULT 'chat';
    ALTER TABLE record ADD COLUMN said_by TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE trait ADD COLUMN channel TEXT NOT NULL DEFAULT 'chat';
    UPDATE record SET said_by = (SELECT json_group_array(speaker) FROM (
        SELECT DISTINCT u.speaker FROM json_each(record.sources) s
        JOIN utterance u ON u.conversation = record.conversation AND u.id = s.value
        WHERE u.speaker != (SELECT agent FROM conversation WHERE pk = record.conversation) ORDER BY u.speaker));
    """,
    # 7: which replies recalled a record
    """
    CREATE TABLE recall (
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        record TEXT NOT NULL,                   -- its id
        utterance TEXT NOT NULL,                -- the reply's id
        PRIMARY KEY (conversation, record, utterance)
    ) WITHOUT ROWID;
    CREATE INDEX recall_utterance ON recall (conversation, utterance);
    """,
    # 8: the conversation of each passage, by which PostgreSQL partitions them
    """
    ALTER TABLE passage ADD COLUMN conversation INTEGER NOT NULL DEFAULT 0;
    UPDATE passage SET conversation = (SELECT conversation FROM record WHERE pk = record);
    CREATE UNIQUE INDEX passage_key ON passage (conversation, record);
    """,
    # 9: replies that ended early, because whoever listened left
    """
    ALTER TABLE utterance ADD COLUMN interrupted INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX utterance_replaced ON utterance (conversation) WHERE replaced = 1;
    """,
    # 10: when a trait holds, beside when it was told
    """
    -- from: NULL counts as at; until: NULL is open; by: id of the utterance that said that it ended
    ALTER TABLE trait ADD COLUMN holds_from INTEGER;
    ALTER TABLE trait ADD COLUMN holds_until INTEGER;
    ALTER TABLE trait ADD COLUMN ended_by TEXT NOT NULL DEFAULT '';
    UPDATE trait SET holds_until = newer.at, ended_by = newer.source FROM trait newer
        WHERE newer.conversation = trait.conversation AND newer.id = trait.superseded_by AND newer.source != '';
    """,
    # 11: imported history: which message of which export an utterance is; the offset from UTC where it was said
    """
    -- a digest, or empty; the offset is in seconds
    ALTER TABLE utterance ADD COLUMN source TEXT NOT NULL DEFAULT '';
    ALTER TABLE utterance ADD COLUMN utc_offset INTEGER NOT NULL DEFAULT 0;
    CREATE UNIQUE INDEX utterance_source ON utterance (conversation, source) WHERE source != '';
    DROP INDEX utterance_pending;
    CREATE INDEX utterance_pending ON utterance (conversation, pk) WHERE extracted = 0 AND source = '';
    CREATE INDEX utterance_history ON utterance (conversation, at, pk) WHERE extracted = 0 AND source != '';
    """,
    # 12: when records and traits are removed
    """
    ALTER TABLE record ADD COLUMN expires INTEGER;
    ALTER TABLE trait ADD COLUMN expires INTEGER;
    CREATE INDEX record_expires ON record (conversation, expires) WHERE expires IS NOT NULL AND pinned = 0;
    CREATE INDEX trait_expires ON trait (conversation, expires) WHERE expires IS NOT NULL AND pinned = 0;
    """,
    # 13: only what programs store says when it expires; when an imported message was edited where it comes from
    """
    UPDATE record SET expires = NULL WHERE view != 'items';
    DROP INDEX trait_expires;
    ALTER TABLE trait DROP COLUMN expires;
    CREATE INDEX record_age ON record (conversation, at) WHERE pinned = 0;
    CREATE INDEX trait_age ON trait (conversation, last_at) WHERE pinned = 0;
    ALTER TABLE utterance ADD COLUMN edited INTEGER;
    """,
    # 14: what is taken back with a line that ended a trait, or named the day on which it will end
    """
    ALTER TABLE trait ADD COLUMN planned_by TEXT NOT NULL DEFAULT '';
    ALTER TABLE trait ADD COLUMN otherwise_until INTEGER;
    """,
)
