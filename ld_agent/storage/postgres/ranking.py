"""Equations (1) to (3), BM25 and the proximity to dates as one query over the records of a conversation's view.

Exact, by the conversation's own index: within one conversation an approximate index would be slower, and miss some. The
formulas are those of `ld_agent.memory.scoring`, `memory.index.lexical` and `memory.dates`; tests compare them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ld_agent.storage.columns import vector_bytes
from ld_agent.storage.ranking import Inventory, Ranked, RankedRecord, Ranking
from ld_agent.storage.sql.rows import RECORD, record
from ld_agent.storage.sql.shelf import SQLShelf

LEAST = -708.39
"""PostgreSQL reports an error if exp() of less than this underflows."""
OF_VIEW = "r.conversation = ?1 AND r.view = ?2"
WITH_PASSAGES = "record r JOIN passage p ON p.conversation = r.conversation AND p.record = r.pk"
SPEAKERS = f"""SELECT count(*), (SELECT coalesce(array_agg(DISTINCT name), '{{}}')
    FROM {WITH_PASSAGES} CROSS JOIN jsonb_object_keys(p.lengths -> 'by') AS name WHERE {OF_VIEW})
    FROM {WITH_PASSAGES} WHERE {OF_VIEW}"""
TERMS = ("s_sem", "s_top", "s_word", "s_own", "s_date")


class RankingShelf(SQLShelf):
    """A shelf that is ranked in the database."""

    def inventory(self, passages: bool) -> Inventory:
        key = (self._key, self._view)
        records, encoded = self._db.row(f"SELECT count(*), count(vector) FROM record r WHERE {OF_VIEW}", key)
        count, speakers = self._db.row(SPEAKERS, key) if passages else (0, ())
        return Inventory(records, encoded, count, frozenset(speakers))

    def ranked(self, ranking: Ranking) -> Ranked:
        values = _Values([self._key, self._view])
        rows = self._db.rows(_query(ranking, values, self._db.vector(vector_bytes(ranking.vector))), tuple(values))
        ranked = [
            RankedRecord(pk, record(row[10:]), decay, score, dict(zip(TERMS, row[3:8], strict=True)))
            for row in rows
            for pk, decay, score in [row[:3]]
        ]
        return Ranked(ranked, rows[0][8], json.loads(rows[0][9])) if rows else Ranked(())


class _Values(list[Any]):
    """The values of a statement, each with its placeholder."""

    def place(self, value: Any, kind: str = "float8") -> str:
        self.append(value)
        return f"?{len(self)}::{kind}"


def _query(ranking: Ranking, values: _Values, vector: object) -> str:
    """The statement; ``values`` has the conversation and the view."""
    columns = ", ".join(f"r.{column.strip()}" for column in RECORD.split(","))
    at = values.place(ranking.at, "bigint")
    worded = "s_word" in ranking.weights
    weighed = [name for name in ranking.weights if name in TERMS]
    score = " + ".join(f"{values.place(ranking.weights[name])} * {name}" for name in weighed)
    bounds = " AND ".join(f"{name} > {values.place(bound)}" for name, bound in ranking.bounds.items())
    return f"""WITH {_spoken(ranking, values) if worded else ""} number AS MATERIALIZED (
            SELECT r.pk, r.at, least(1, greatest(-1, -(r.vector <#> {values.place(vector, "vector")})))::float8 AS s_sem,
                {_overlap(ranking.topics, values)} AS s_top, {_decay(ranking.tau, at, values)} AS decay,
                {_nearness(ranking.periods, values)} AS s_date,
                {", ".join(f"{f'coalesce({name}, 0)' if worded else '0::float8'} AS {name}" for name in ("s_word", "s_own"))}
            FROM record r {"LEFT JOIN spoken ON spoken.pk = r.pk" if worded else ""}
            WHERE {OF_VIEW} AND r.at <= {at} AND r.vector IS NOT NULL),
        best AS (
            SELECT *, {"decay" if ranking.decayed else "1"} * ({score}) AS score FROM number WHERE {bounds or "true"}
            ORDER BY score DESC, at DESC, pk DESC LIMIT {values.place(ranking.k, "bigint")})
        SELECT best.pk, decay, score, {", ".join(TERMS)}, {WINDOWS if worded else "0::bigint, '{}'::text"}, {columns}
        FROM best JOIN record r ON r.pk = best.pk AND {OF_VIEW}
        ORDER BY score DESC, best.at DESC, best.pk DESC"""


def _overlap(topics: Sequence[str], values: _Values) -> str:
    """Equation (1). Topics are compared as JSON, because PostgreSQL cannot unescape some of its characters."""
    if not topics:
        return "0::float8"
    given = values.place([json.dumps(topic, ensure_ascii=False) for topic in topics], "text[]")
    return f"""(SELECT 0.5::float8 * count(*) FILTER (WHERE topic::text = ANY({given}))
        * (1::float8 / {len(topics)} + 1::float8 / greatest(count(*), 1))
        FROM json_array_elements(r.topics::json) AS t (topic))"""


def _decay(tau: float | None, at: str, values: _Values) -> str:
    return "1::float8" if tau is None else f"exp(greatest(-({at} - r.at) / 1e6::float8 / {values.place(tau)}, {LEAST}))"


def _nearness(periods: Sequence[tuple[float, float]], values: _Values) -> str:
    if not periods:
        return "0::float8"
    starts, ends = (values.place(list(moments), "float8[]") for moments in zip(*periods, strict=True))
    gap = "greatest(2 * (first - r.at / 1e6::float8), r.at / 1e6::float8 - last, 0)"
    return (
        f"(SELECT max(exp(greatest(-{gap} / 604800, {LEAST}))) FROM unnest({starts}, {ends}) AS period (first, last))"
    )


WINDOWS = "(SELECT windows FROM whole), (SELECT coalesce(jsonb_object_agg(word, windows), '{}')::text FROM term)"


def _spoken(ranking: Ranking, values: _Values) -> str:
    """BM25 over everything said, and over what one speaker said, for records that contain any of the words."""
    words, names = values.place(list(ranking.words), "text[]"), values.place(list(ranking.names), "text[]")
    about, most = values.place(ranking.about, "text"), values.place(ranking.most)
    return f"""document AS MATERIALIZED (
            SELECT p.record AS pk, (p.lengths ->> 'words')::float8 AS length, (p.lengths ->> 'windows')::bigint AS windows,
                (p.lengths -> 'by' ->> {about})::float8 AS length_by
            FROM {WITH_PASSAGES} WHERE {OF_VIEW}),
        hit AS MATERIALIZED (
            SELECT pk, word, (counts ->> 0)::float8 AS said, (counts ->> 1)::bigint AS windows,
                (counts -> 2 ->> {about})::float8 AS own
            FROM (SELECT p.record AS pk, p.spoken || '{{}}' AS spoken FROM {WITH_PASSAGES} WHERE {OF_VIEW} OFFSET 0) AS unpacked
            CROSS JOIN unnest({words}) AS word CROSS JOIN LATERAL (SELECT spoken -> word AS counts OFFSET 0) AS looked_up
            WHERE counts IS NOT NULL),
        whole AS MATERIALIZED (
            SELECT count(*)::float8 AS n, count(length_by)::float8 AS n_by, coalesce(sum(windows), 0)::bigint AS windows,
                greatest(avg(length), 1e-9) AS mean, greatest(avg(length_by), 1e-9) AS mean_by FROM document),
        term AS MATERIALIZED (
            SELECT word, counted.windows, listed <= {most} * n AS counts, {_rarity("n", "listed")} AS rarity,
                CASE WHEN listed_by > 0 AND word != ALL({names}) THEN {_rarity("n_by", "listed_by")} ELSE 0 END AS rarity_by
            FROM (SELECT word, sum(windows)::bigint AS windows, count(*)::float8 AS listed, count(own)::float8 AS listed_by
                  FROM hit GROUP BY word) AS counted CROSS JOIN whole),
        spoken AS (
            SELECT pk, {_match("CASE WHEN counts THEN rarity ELSE 0 END", "said", "length / mean")}
                    / sqrt((SELECT sum(rarity) FROM term) + 1) AS s_word,
                {_match("rarity_by", "own", "length_by / mean_by")} / sqrt((SELECT sum(rarity_by) FROM term) + 1) AS s_own
            FROM hit JOIN term USING (word) JOIN document USING (pk) CROSS JOIN whole GROUP BY pk),"""


def _rarity(documents: str, listed: str) -> str:
    return f"ln(1 + ({documents} - {listed} + 0.5) / ({listed} + 0.5))"


def _match(weight: str, count: str, length: str) -> str:
    """BM25 with k1 = 1.2 and b = 0.75."""
    return f"coalesce(sum({weight} * 2.2 * {count} / (0.9 * {length} + 0.3 + {count})), 0)"
