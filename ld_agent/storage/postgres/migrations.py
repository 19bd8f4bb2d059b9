"""The schema in PostgreSQL as numbered, append-only steps, like `ld_agent.storage.sqlite.migrations`. Never edit a released one.

Tables and columns are those of SQLite, so that the shared SQL fits both. Tables that grow with use are partitioned by a
hash of the conversation. Text is compared bytewise, as in SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator

PARTITIONS = 8
TEXT = 'text COLLATE "C" NOT NULL'
OWNER = "conversation bigint NOT NULL REFERENCES conversation ON DELETE CASCADE"


def _partitioned(name: str, columns: str) -> str:
    parts = (
        f"CREATE TABLE {name}_{n} PARTITION OF {name} FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {n})"
        for n in range(PARTITIONS)
    )
    return ";\n".join([f"CREATE TABLE {name} ({columns}) PARTITION BY HASH (conversation)", *parts])


SETTING = "(SELECT current_setting('ld_agent.tenant', true))"
"""The tenant a transaction acts for; a subquery, so that it is evaluated once per statement, not per row."""
EVERY_ROW = f"{SETTING} = '*/'"
OWN_ROWS = f"tenant = {SETTING} OR {EVERY_ROW}"
PARTITIONED = ("utterance", "digested", "observed", "record", "trait", "passage", "recall")
OWNED = (*PARTITIONED, "session", "speaker", "enabled", "verdict", "failure", "change", "snapshot", "answer")
"""Tables whose rows belong to a conversation."""


def _owned_by_tenant(table: str) -> Iterator[str]:
    """Ties a table's rows to the tenant of their conversation."""
    yield f"ALTER TABLE {table} DROP CONSTRAINT {table}_conversation_fkey"
    yield f"ALTER TABLE {table} ADD COLUMN tenant {TEXT} DEFAULT '/'"
    yield f"UPDATE {table} t SET tenant = c.tenant FROM conversation c WHERE c.pk = t.conversation AND c.tenant != '/'"
    yield f"ALTER TABLE {table} ALTER COLUMN tenant SET DEFAULT current_setting('ld_agent.tenant', true)"
    yield f"""ALTER TABLE {table} ADD FOREIGN KEY (conversation, tenant)
        REFERENCES conversation (pk, tenant) ON DELETE CASCADE"""


def _confined(table: str, rows: str) -> Iterator[str]:
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    yield f"CREATE POLICY tenant ON {table} USING ({rows})"


MIGRATIONS: tuple[tuple[str, ...], ...] = (
    # 1: what SQLite's schema is after its sixth step
    (
        "CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL)",
        f"""CREATE TABLE conversation (
            pk bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- never given twice
            id {TEXT} UNIQUE,
            agent {TEXT},
            utterances bigint NOT NULL DEFAULT 0,
            records bigint NOT NULL DEFAULT 0,
            traits bigint NOT NULL DEFAULT 0,
            edits bigint NOT NULL DEFAULT 0,
            version bigint NOT NULL DEFAULT 0  -- of what is stored of it: every transaction that writes adds one
        ) WITH (fillfactor = 70)""",
        f"""CREATE TABLE session (
            {OWNER}, number bigint NOT NULL, closed smallint NOT NULL DEFAULT 0, thread {TEXT} DEFAULT '',
            PRIMARY KEY (conversation, number))""",
        "CREATE INDEX session_thread ON session (conversation, thread, number)",
        "CREATE INDEX session_open ON session (conversation, thread) WHERE closed = 0",
        "CREATE SEQUENCE utterance_pk",
        _partitioned(
            "utterance",
            f"""pk bigint NOT NULL DEFAULT nextval('utterance_pk'), {OWNER}, id {TEXT}, session bigint NOT NULL,
            speaker {TEXT}, text {TEXT}, at bigint NOT NULL, extracted smallint NOT NULL DEFAULT 0,
            replaced smallint NOT NULL DEFAULT 0, channel {TEXT} DEFAULT 'chat',
            PRIMARY KEY (conversation, pk), UNIQUE (conversation, id)""",
        ),
        "CREATE INDEX utterance_session ON utterance (conversation, session, pk)",
        "CREATE INDEX utterance_pending ON utterance (conversation, pk) WHERE extracted = 0",
        _partitioned(
            "digested",
            f"{OWNER}, view {TEXT}, session bigint NOT NULL, PRIMARY KEY (conversation, view, session)",
        ),
        _partitioned(
            "observed",
            f"{OWNER}, view {TEXT}, utterance {TEXT}, PRIMARY KEY (conversation, view, utterance)",
        ),
        "CREATE SEQUENCE record_pk",
        _partitioned(
            "record",
            f"""pk bigint NOT NULL DEFAULT nextval('record_pk'), {OWNER}, id {TEXT}, view {TEXT}, session bigint NOT NULL,
            text {TEXT}, at bigint NOT NULL, topics {TEXT}, sources {TEXT}, fallback smallint NOT NULL DEFAULT 0,
            details {TEXT} DEFAULT '{{}}', vector bytea, pinned smallint NOT NULL DEFAULT 0,
            channel {TEXT} DEFAULT 'chat', said_by {TEXT} DEFAULT '[]',
            PRIMARY KEY (conversation, pk), UNIQUE (conversation, id)""",
        ),
        "CREATE INDEX record_view ON record (conversation, view, pk)",
        "CREATE INDEX record_session ON record (conversation, session, pk)",
        "CREATE INDEX record_pinned ON record (conversation) WHERE pinned = 1",
        "CREATE INDEX record_bare ON record (pk) WHERE vector IS NULL",
        "CREATE SEQUENCE trait_pk",
        _partitioned(
            "trait",
            f"""pk bigint NOT NULL DEFAULT nextval('trait_pk'), {OWNER}, id {TEXT}, speaker {TEXT}, text {TEXT},
            at bigint NOT NULL, source {TEXT}, last_at bigint NOT NULL, mentions bigint NOT NULL DEFAULT 1,
            superseded_by text COLLATE "C", vector bytea, pinned smallint NOT NULL DEFAULT 0,
            channel {TEXT} DEFAULT 'chat', PRIMARY KEY (conversation, pk), UNIQUE (conversation, id)""",
        ),
        "CREATE INDEX trait_speaker ON trait (conversation, speaker, pk)",
        # A record's key is unique, but no constraint can span partitions: a trigger replaces the foreign key.
        f"CREATE TABLE passage (record bigint PRIMARY KEY, words {TEXT}, vectors bytea NOT NULL)",
        """CREATE FUNCTION forget_passage() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN DELETE FROM passage WHERE record = old.pk; RETURN NULL; END'""",
        "CREATE TRIGGER record_gone AFTER DELETE ON record FOR EACH ROW EXECUTE FUNCTION forget_passage()",
        f"CREATE TABLE speaker ({OWNER}, name {TEXT}, first bigint NOT NULL, PRIMARY KEY (conversation, name))",
        """CREATE FUNCTION know_speaker() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO speaker (conversation, name, first) VALUES (new.conversation, new.speaker, new.pk)
             ON CONFLICT DO NOTHING; RETURN NULL; END'""",
        "CREATE TRIGGER speaker_known AFTER INSERT ON utterance FOR EACH ROW EXECUTE FUNCTION know_speaker()",
        f"""CREATE TABLE enabled ({OWNER}, view {TEXT}, since bigint NOT NULL, through bigint NOT NULL,
            PRIMARY KEY (conversation, view))""",
        f"""CREATE TABLE verdict ({OWNER}, view {TEXT}, utterance {TEXT}, worth smallint NOT NULL,
            PRIMARY KEY (conversation, view, utterance))""",
        f"""CREATE TABLE failure ({OWNER}, work {TEXT}, item {TEXT}, attempts bigint NOT NULL, error {TEXT},
            PRIMARY KEY (conversation, work, item))""",
        f"""CREATE TABLE change (pk bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {OWNER}, target {TEXT},
            action {TEXT}, at bigint NOT NULL, before {TEXT})""",
        "CREATE INDEX change_conversation ON change (conversation, pk)",
        f"""CREATE TABLE snapshot ({OWNER}, view {TEXT}, last_key bigint NOT NULL, data bytea NOT NULL,
            PRIMARY KEY (conversation, view))""",
        f"""CREATE TABLE api_key (prefix {TEXT} PRIMARY KEY, hash {TEXT} UNIQUE, tenant {TEXT}, scopes {TEXT},
            rate bigint, created bigint NOT NULL, revoked bigint)""",
        f"""CREATE TABLE answer (id {TEXT} PRIMARY KEY, {OWNER}, thread {TEXT}, request text COLLATE "C",
            fingerprint {TEXT}, reply {TEXT}, finish {TEXT}, prompt_tokens bigint NOT NULL,
            completion_tokens bigint NOT NULL, at bigint NOT NULL, UNIQUE (conversation, request))""",
        "CREATE INDEX answer_at ON answer (at)",
    ),
    # 2: which replies recalled a record
    (
        _partitioned(
            "recall",
            f"{OWNER}, record {TEXT}, utterance {TEXT}, PRIMARY KEY (conversation, record, utterance)",
        ),
        "CREATE INDEX recall_utterance ON recall (conversation, utterance)",
    ),
    # 3: the owner of every row, and policies that show a tenant only its own; passages partitioned like their records
    (
        f"""ALTER TABLE conversation ADD COLUMN tenant {TEXT} GENERATED ALWAYS AS
            (CASE WHEN strpos(id, '/') > 1 THEN split_part(id, '/', 1) ELSE '/' END) STORED""",
        "ALTER TABLE conversation ADD UNIQUE (pk, tenant)",
        "ALTER TABLE passage RENAME TO passage_before",
        _partitioned(
            "passage",
            f"""record bigint NOT NULL, {OWNER}, words {TEXT}, vectors bytea NOT NULL,
            PRIMARY KEY (conversation, record)""",
        ),
        """INSERT INTO passage SELECT p.record, r.conversation, p.words, p.vectors
            FROM passage_before p JOIN record r ON r.pk = p.record""",
        "DROP TABLE passage_before",
        """CREATE OR REPLACE FUNCTION forget_passage() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN DELETE FROM passage WHERE conversation = old.conversation AND record = old.pk; RETURN NULL; END'""",
        *(sql for table in OWNED for sql in _owned_by_tenant(table)),
        *(sql for table in ("conversation", "api_key", *OWNED) for sql in _confined(table, OWN_ROWS)),
        *_confined("meta", EVERY_ROW),
        "CREATE POLICY known_to_all ON meta FOR SELECT USING (true)",
        *(
            f"ALTER TABLE {table}_{n} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"  # accessed through the parent only
            for table in PARTITIONED
            for n in range(PARTITIONS)
        ),
    ),
    # 4: replies that ended early
    (
        "ALTER TABLE utterance ADD COLUMN interrupted smallint NOT NULL DEFAULT 0",
        "CREATE INDEX utterance_replaced ON utterance (conversation) WHERE replaced = 1",
    ),
    # 5: counted the words of passages, which 8 no longer keeps
    (),
    # 6: when a trait holds, beside when it was told
    (
        f"""ALTER TABLE trait ADD COLUMN holds_from bigint, ADD COLUMN holds_until bigint,
            ADD COLUMN ended_by {TEXT} DEFAULT ''""",
        """UPDATE trait SET holds_until = newer.at, ended_by = newer.source FROM trait newer
            WHERE newer.conversation = trait.conversation AND newer.id = trait.superseded_by
            AND newer.source != ''""",
    ),
    # 7: imported history: which message of which export an utterance is; the offset from UTC where it was said
    (
        f"""ALTER TABLE utterance ADD COLUMN source {TEXT} DEFAULT '',
            ADD COLUMN utc_offset bigint NOT NULL DEFAULT 0""",
        "CREATE UNIQUE INDEX utterance_source ON utterance (conversation, source) WHERE source != ''",
        "DROP INDEX utterance_pending",
        "CREATE INDEX utterance_pending ON utterance (conversation, pk) WHERE extracted = 0 AND source = ''",
        "CREATE INDEX utterance_history ON utterance (conversation, at, pk) WHERE extracted = 0 AND source != ''",
    ),
    # 8: words of passages are no longer counted; vectors are plain bytes, which are computed again
    (
        "DROP TRIGGER IF EXISTS words_counted ON passage",
        "DROP FUNCTION IF EXISTS count_passage, words_counted",
        "ALTER TABLE passage DROP COLUMN IF EXISTS spoken, DROP COLUMN IF EXISTS lengths",
        "DELETE FROM snapshot",
        "DROP INDEX record_bare",
        *(
            f"ALTER TABLE {table} {change}"
            for table in ("record", "trait")
            for change in ("DROP COLUMN vector", "ADD COLUMN vector bytea")
        ),
        "CREATE INDEX record_bare ON record (pk) WHERE vector IS NULL",
    ),
    # 9: when records and traits are removed
    tuple(
        sql
        for table in ("record", "trait")
        for sql in (
            f"ALTER TABLE {table} ADD COLUMN expires bigint",
            f"""CREATE INDEX {table}_expires ON {table} (conversation, expires)
                WHERE expires IS NOT NULL AND pinned = 0""",
        )
    ),
    # 10: only what programs store says when it expires; when an imported message was edited where it comes from
    (
        "UPDATE record SET expires = NULL WHERE view != 'items'",
        "ALTER TABLE trait DROP COLUMN expires",
        "CREATE INDEX record_age ON record (conversation, at) WHERE pinned = 0",
        "CREATE INDEX trait_age ON trait (conversation, last_at) WHERE pinned = 0",
        "ALTER TABLE utterance ADD COLUMN edited bigint",
    ),
    # 11: what is taken back with a line that ended a trait, or named the day on which it will end
    (f"ALTER TABLE trait ADD COLUMN planned_by {TEXT} DEFAULT '', ADD COLUMN otherwise_until bigint",),
)
