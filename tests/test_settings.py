"""Settings: from the environment or from code, never changed, and refused in one sentence."""

import pytest
from pydantic import ValidationError

from service.settings import InsecureBinding, InvalidSettings, Settings, check_binding, load_settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch) -> None:
    for name in ("REDIS_URL", "MICROCODER_REDIS_URL", "MICROCODER_API_KEYS", "MICROCODER_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_each_field_can_be_set_in_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("MICROCODER_PORT", "9000")
    monkeypatch.setenv("MICROCODER_API_KEYS", " k1, k2,")
    monkeypatch.setenv("MICROCODER_INSECURE", "true")

    settings = load_settings()

    assert (settings.port, settings.api_keys, settings.insecure) == (9000, ("k1", "k2"), True)


def test_the_address_of_redis_has_two_names_and_code_goes_first(monkeypatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://general:6379")
    assert load_settings().redis == "redis://general:6379"
    monkeypatch.setenv("MICROCODER_REDIS_URL", "redis://ours:6379")
    assert load_settings().redis == "redis://ours:6379"

    assert load_settings(redis_url="unix:///here").redis == "unix:///here"
    assert load_settings(redis_url=None).redis == "redis://ours:6379"


def test_an_empty_variable_is_as_good_as_none(monkeypatch) -> None:
    monkeypatch.setenv("REDIS_URL", "")

    assert load_settings().redis_url is None


def test_without_redis_it_says_what_to_do() -> None:
    with pytest.raises(InvalidSettings, match="microcoder serve"):
        _ = load_settings().redis


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("MICROCODER_PORT", "http", "MICROCODER_PORT: .*integer"),
        ("MICROCODER_PORT", "70000", "MICROCODER_PORT: .*65535"),
        ("MICROCODER_TURN_SECONDS", "nan", "MICROCODER_TURN_SECONDS: .*finite"),
        ("MICROCODER_QUEUE_BOUND", "1", "max_submissions"),
        ("MICROCODER_QUEUE", "a:b", "MICROCODER_QUEUE"),
        ("REDIS_URL", "localhost:6379", "redis://host:port"),
    ],
)
def test_what_cant_be_used_is_refused_by_its_name(monkeypatch, name: str, value: str, words: str) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(InvalidSettings, match=words) as caught:
        load_settings()
    assert "\n" not in str(caught.value)


def test_settings_dont_change_and_dont_show_secrets() -> None:
    settings = Settings(api_keys=("secret",), redis_url="redis://:secret@host")

    with pytest.raises(ValidationError):
        settings.port = 1
    assert "secret" not in repr(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_this_machine_needs_no_key(host: str) -> None:
    check_binding(Settings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.0.7", "example.org", "localhost.example.org"])
def test_other_machines_need_a_key_or_a_word(host: str) -> None:
    with pytest.raises(InsecureBinding, match="MICROCODER_API_KEYS"):
        check_binding(Settings(host=host))

    check_binding(Settings(host=host, api_keys=("k",)))
    check_binding(Settings(host=host, insecure=True))
