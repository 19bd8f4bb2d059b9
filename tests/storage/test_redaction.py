"""``store.redact: secrets``: what is a secret, what is none, and that none gets into a store on any way."""

import re
from pathlib import Path

import pytest
from agent_parts import START, Scene
from cli_commands import CommandLine

from ld_agent.storage.exchange import export_lines
from ld_agent.storage.redaction import REDACTED, Secrets

KEY = "sk-proj-Abcd1234Efgh5678Ijkl9012"
ENDLESS = 40_000


@pytest.mark.parametrize(
    "marked",
    [
        f"My key is <<{KEY}>>, keep it.",
        "<<AKIAIOSFODNN7EXAMPLE>> and AWS_SECRET_ACCESS_KEY=<<wJalrXUtnFEMIK7MDENGbPxRfi1>>",
        "Authorization: Bearer <<abcdefghijklmnop0123456>>",
        "<<ghp_16C7e42F292c6912E7710c838347Ae178B4a>>!",
        "Pay with <<4111 1111 1111 1111>> 12/27, or <<378282246310005>>.",
        "My password is <<hunter2>>.",
        "the wifi password: <<swordfish>>\nBye",
        'The passphrase was "<<correct horse battery>>", I think.',
        '{"password": "<<letmein>>", "user": "ann"}',
        "密码是<<abc123>>，别忘了",
        "비밀번호는 <<hunter2>>예요",
        "postgres://ann:<<s3cret>>@host/db",
        "<<-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA12\nab==\n-----END RSA PRIVATE KEY----->>\nBye",
        "<<-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234567890ab>>\nI forgot the rest.",
    ],
)
def test_a_secret_goes_and_every_other_word_stays(marked: str, caplog: pytest.LogCaptureFixture):
    secrets = re.findall("<<(.*?)>>", marked, re.DOTALL)
    expected = re.sub("<<.*?>>", REDACTED, marked, flags=re.DOTALL)
    assert Secrets().stored(marked.replace("<<", "").replace(">>", "")) == expected
    assert sum(map(int, re.findall(r"\d+(?= [a-zA-Z ]+)", caplog.messages[0]))) == len(secrets)
    assert not any(secret in caplog.text for secret in secrets)
    assert Secrets().kept(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "My password is wrong, and the PIN is four digits long.",
        "Passwords: I forgot them in 2019. My password was stolen 12345 times.",
        "The secret is to cook it slowly. The key to happiness is internationalization.",
        "Call +49 170 1234567, order 4111 1111 1111 1112, at 1717000000000, on 2024-05-01 18:30.",
        "The bearer of internationalization; https://example.org:8080/@ann; ask-me-anything-about-everything",
        "We spoke of a -----BEGIN CERTIFICATE----- line.",
    ],
)
def test_what_is_no_secret_stays(text: str, caplog: pytest.LogCaptureFixture):
    assert Secrets().stored(text) == text
    assert caplog.messages == []


def test_a_mapping_names_its_secrets():
    told = {
        "password": "swordfish",
        "at": [{"api_key": ["abcd1234efgh5678"], "password": 7}],
        "note": "The password is long",
    }
    kept = {"password": REDACTED, "at": [{"api_key": [REDACTED], "password": 7}], "note": "The password is long"}
    assert Secrets().kept(told) == kept
    assert Secrets().kept({KEY: "a key", "note": "swordfish"}) == {KEY: "a key", "note": "swordfish"}


@pytest.mark.parametrize(
    "piece", ["eyJ", "1 ", "4111 ", "password ", "密码", "a://a:", "-----BEGIN PRIVATE KEY-----", "Bearer "]
)
def test_long_texts_take_linear_time(piece: str):
    """A pattern that goes back over what it has read would run into the timeout of a test here."""
    assert Secrets().kept(piece * (ENDLESS // len(piece)) + KEY).count(KEY) <= 1


def test_no_way_leads_a_secret_into_the_store(scene: Scene, command_line: CommandLine, tmp_path: Path):
    plain = scene.agent(**{"store.path": str(tmp_path / "plain.db")})
    plain.conversation("bob").observe(f"I use {KEY}.", at=START)
    backup, chat = tmp_path / "backup.jsonl", tmp_path / "WhatsApp Chat - Bo.txt"
    backup.write_text("".join(f"{line}\n" for line in export_lines(plain.store)), encoding="utf-8")
    assert KEY in backup.read_text(encoding="utf-8")
    chat.write_text(f"[03.06.24, 09:00:00] Ann: It is {KEY}\n", encoding="utf-8")
    agent = scene.agent(**{"store.redact": "secrets"})
    path = Path(agent.config.store.path)
    ann = agent.conversation("ann")
    assert ann.respond(f"I have {KEY} now.", at=START).heard.text == f"I have {REDACTED} now."
    ann.observe(f"A page says {KEY}.", at=START, channel="document")
    ann.observe(f"A tool says {KEY}.", at=START, channel="tool")
    ann.end_session()
    ann.edit(ann.utterances[0].id, f"I have no {KEY}.")
    for source in (backup, chat):
        ran = command_line("memory", "import", source, "--store", path, "store.redact=secrets")
        assert ran.code == 0, ran.err
    pytest.importorskip("langgraph")
    from ld_agent.integrations.langgraph import MemoryStore

    MemoryStore(agent).put(("ann",), "k", {"text": "A key", "keys": [{"key": KEY}], "password": "hunter2"})
    exported = "\n".join(export_lines(agent.store))
    assert "hunter2" not in exported
    assert (KEY in exported, exported.count(REDACTED) >= 7) == (False, True)
    assert not [file for file in path.parent.glob(f"{path.name}*") if KEY.encode() in file.read_bytes()]
