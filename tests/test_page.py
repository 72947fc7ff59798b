"""The page at `/`, in a real browser: what it shows, that it needs no network and makes no noise, and its key."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from service.page_routes import FILES, FOLDER
from tests.requirements_helper import require
from tests.served_helper import Served

KEY = "a-key-for-the-page"
WIDE, NARROW = (1360, 900), (390, 844)
SQUARES = "for i in range(int(input())):\n    print(i * (i if i < 7 else 3))\n"


@dataclass
class Sight:
    """A page in the browser, and what it complained of or asked other hosts for."""

    page: object
    url: str
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Chromium without a window."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    require("browser", None if found else "There is no Chromium: apt-get install chromium.")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        require("browser", f"Playwright isn't installed: {error}")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A service with one worker and a key."""
    with Served("--workers", "1", "--sandbox", "bubblewrap", MICROCODER_API_KEYS=KEY) as served:
        yield served.ready()


@pytest.fixture
def look(browser, url: str) -> Iterator[Callable[..., Sight]]:
    """A function that opens the page, with the key unless it is said otherwise."""
    opened = []

    def look(size: tuple[int, int] = WIDE, scheme: str = "light", key: str | None = KEY, address: str = "#/") -> Sight:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        context.set_default_timeout(20_000)
        if key is not None:
            context.add_init_script(f"sessionStorage.setItem('microcoder-key', '{key}')")
        sight = Sight(context.new_page(), url)
        sight.page.on("console", lambda message: sight.complaints.append(message.text))
        sight.page.on("pageerror", lambda error: sight.complaints.append(str(error)))
        sight.page.on("request", lambda request: sight.hosts.add(httpx.URL(request.url).host))
        sight.page.goto(f"{url}/{address}")
        opened.append(context)
        return sight

    yield look
    for context in opened:
        context.close()


def post(url: str, id: str, sources: list[str], tests: list[dict]) -> None:
    body = {
        "id": id,
        "suite": {"tests": tests},
        "fail_fast": False,
        "submissions": [{"program": {"source": source}} for source in sources],
    }
    headers = {"Authorization": f"Bearer {KEY}"}
    answer = httpx.post(f"{url}/v1/evaluations?wait=30", json=body, headers=headers, timeout=40)
    assert answer.json()["state"] == "done"


def keep(sight: Sight, name: str) -> None:
    """Keep a picture where MICROCODER_PICTURES says."""
    if folder := os.environ.get("MICROCODER_PICTURES"):
        sight.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def fits(sight: Sight) -> bool:
    """Whether nothing sticks out at the side."""
    return sight.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (NARROW, "dark")])
def test_a_program_is_typed_in_judged_and_its_difference_shown(look, size, scheme):
    sight = look(size, scheme, address="#/try")
    page = sight.page
    page.get_by_label("Program (Python)").fill(SQUARES + f"# {size}")
    page.get_by_label("Input", exact=True).fill("10\n")
    page.get_by_label("Expected output").fill("".join(f"{i * i}\n" for i in range(10)))
    page.get_by_role("button", name="Add a test").click()
    page.get_by_label("Input", exact=True).last.fill("3\n")
    page.get_by_label("Expected output").last.fill("0\n1.0\n4\n")
    page.keyboard.press("Control+Enter")
    page.get_by_role("heading", name="Result").wait_for()

    wrong, right = page.locator("details.test").all()
    assert wrong.locator("pre").all_inner_texts()[0] == "10\n"
    assert [mark.inner_text() for mark in wrong.locator("mark").all()] == ["49", "21"]
    assert "line 8" in wrong.inner_text()
    assert wrong.locator(".bar i").count() == 2
    assert "matched by numbers" in right.inner_text()
    assert fits(sight)
    keep(sight, f"try-{size[0]}")
    assert not sight.complaints
    assert sight.hosts == {"127.0.0.1"}


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (NARROW, "dark")])
def test_the_latest_evaluations_lead_to_their_tests(look, url, size, scheme):
    tests = [{"kind": "stdin", "input": f"{i}\n", "expected": f"{i}\n"} for i in range(60)]
    fails_late = "n = int(input())\nprint(n if n < 55 else '<b>')"
    post(url, f"shown-{size[0]}", ["print(input())", fails_late, "x ="], tests)
    sight = look(size, scheme)
    page = sight.page
    page.get_by_role("link", name=f"shown-{size[0]}").wait_for()
    assert "1\nworker" in page.locator(".tiles").inner_text()
    assert fits(sight)
    keep(sight, f"overview-{size[0]}")

    page.get_by_role("link", name=f"shown-{size[0]}").click()
    page.get_by_role("link", name="Submission 2").wait_for()
    assert "compile error" in page.locator("main").inner_text()
    assert fits(sight)
    keep(sight, f"evaluation-{size[0]}")

    page.get_by_role("link", name="Submission 2").click()
    page.get_by_role("heading", name="Submission 2").wait_for()
    page.get_by_text("51 to 60 of 60").wait_for()  # where the first failed
    failed = page.locator("details[open]").first
    assert [mark.inner_text() for mark in failed.locator("mark").all()] == ["55", "<b>"]
    assert fits(sight)
    keep(sight, f"submission-{size[0]}")
    page.get_by_role("button", name="Earlier tests").click()
    page.get_by_text("1 to 50 of 60").wait_for()
    assert not sight.complaints


def test_an_evaluation_in_progress_is_followed_to_its_end(look, url):
    sight = look()
    sight.page.get_by_role("heading", name="Latest evaluations").wait_for()
    post(url, "live", ["print(input())"], [{"kind": "stdin", "input": "1\n", "expected": "1\n"}])

    sight.page.get_by_role("link", name="live", exact=True).wait_for()  # without loading the page again


def test_the_page_asks_for_the_key_and_keeps_it_for_the_tab(look):
    sight = look(key=None)
    page = sight.page
    page.get_by_role("dialog").wait_for()
    assert not sight.complaints, "nothing is asked before the key is there"
    page.get_by_role("textbox", name="Key").fill("another")
    page.get_by_role("button", name="Use it").click()
    page.get_by_text("This key isn't known here.").wait_for()
    page.get_by_role("textbox", name="Key").fill(KEY)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Latest evaluations").wait_for()
    assert page.evaluate("Object.values(sessionStorage).join() + Object.keys(localStorage).join()") == KEY

    page.reload()
    page.get_by_role("heading", name="Latest evaluations").wait_for()
    page.get_by_role("button", name="Forget key").click()
    page.get_by_role("dialog").wait_for()


def test_values_differ_where_they_differ_and_not_where_they_are_spaced(look):
    sight = look(address="#/try")
    page = sight.page
    page.get_by_label("Tests").select_option("functional")
    page.get_by_label("Expected (JSON)").fill("[1,7]")
    page.get_by_role("button", name="Judge it").click()
    page.get_by_role("heading", name="Result").wait_for()

    assert [mark.inner_text() for mark in page.locator("mark").all()] == ["7", "4"]
    assert not sight.complaints


def test_what_is_refused_is_said(look):
    sight = look(address="#/try")
    page = sight.page
    page.get_by_label("Tests").select_option("functional")
    page.get_by_label("Expected (JSON)").fill("[1,")
    page.get_by_role("button", name="Judge it").click()

    page.get_by_role("alert").filter(has_text="suite").wait_for()
    page.get_by_role("button", name="Judge it", disabled=False).wait_for()


def test_the_form_is_reached_by_keyboard(look):
    sight = look(address="#/try")
    page = sight.page
    page.get_by_label("Program (Python)").wait_for()
    seen = []
    for _ in range(14):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.innerText"))

    assert "program" in seen and "Judge it" in seen


def test_what_the_page_asks_for_needs_the_key_and_its_files_do_not(url):
    with httpx.Client(base_url=url) as client:
        for path in ("/", *FILES):
            answer = client.get(path)
            assert answer.status_code == 200
            assert "default-src 'none'" in answer.headers["content-security-policy"]
        for path in ("/page/overview", "/page/evaluations/none", "/page/evaluations/none/0", "/page/other.js"):
            assert client.get(path).status_code == 401
            known = client.get(path, headers={"X-API-Key": KEY})
            assert known.status_code == (200 if path == "/page/overview" else 404)
        assert client.post("/page/evaluations", json={}).status_code == 401


def test_the_files_name_no_other_host():
    for path in FOLDER.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path.name
