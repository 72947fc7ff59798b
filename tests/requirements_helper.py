"""What some tests need of the machine: missing, it skips them, unless MICROCODER_REQUIRE says that it must be there."""

import os

import pytest


def require(name: str, obstacle: str | None) -> None:
    """Go on when there is no `obstacle`. Else skip with it, or fail where MICROCODER_REQUIRE lists `name`."""
    if obstacle is None:
        return
    if name in os.environ.get("MICROCODER_REQUIRE", "").split(","):
        pytest.fail(f"MICROCODER_REQUIRE asks for {name}: {obstacle}", pytrace=False)
    pytest.skip(obstacle)
