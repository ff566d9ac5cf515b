"""The page of episodes in a real browser: it opens, filters, steps, changes its theme, and fits a phone.

Needs Chromium from the system's packages (`apt-get install chromium`; another binary with CHROMIUM=/path) and the dev extra.
"""

from __future__ import annotations

import os
import shutil

import pytest
from test_viewer import hostile, made  # noqa: F401 - fixtures

from envs.viewer import write_page

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def browser():
    driver = pytest.importorskip("playwright.sync_api", reason="the dev extra's playwright is not installed")
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine: install the system's package, or set CHROMIUM")
    with driver.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(made, tmp_path_factory):  # noqa: F811
    path = tmp_path_factory.mktemp("page") / "samples.html"
    write_page(made, path, title="All of support", intro="for a test")
    return path


@pytest.fixture
def tab(browser, file):
    """The page in a wide window, offline, with every error of its script raised at the end."""
    yield from opened(browser, file, {"width": 1280, "height": 860})


@pytest.fixture
def phone(browser, file):
    yield from opened(browser, file, {"width": 375, "height": 740}, has_touch=True, is_mobile=True)


def opened(browser, file, viewport, address="", **more):
    context = browser.new_context(viewport=viewport, offline=True, **more)
    tab, errors = context.new_page(), []
    tab.on("pageerror", lambda e: errors.append(str(e)))
    tab.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    tab.on("request", lambda r: errors.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    tab.goto(f"file://{file}{address}")
    tab.wait_for_selector(".turn")
    yield tab
    context.close()
    assert not errors


def sample(tab):
    return tab.evaluate("[current.sample, current.step]")


def press(tab, key, wanted):
    tab.keyboard.press(key)
    tab.wait_for_function(f"current.sample === {wanted[0]} && current.step === {wanted[1]}")
    tab.wait_for_function("document.querySelector('.step[aria-current]')?.textContent === String(current.step + 1)")


def test_it_opens_with_log_and_view_of_the_first_sample(tab, made):  # noqa: F811
    t = made[0].trajectory
    assert tab.locator("#count").inner_text() == f"{len(made)} samples"
    assert tab.locator(".chip", has_text="language").first.inner_text().split() == ["language", "en"]
    view = tab.locator("#viewscroll > .message")
    assert view.count() == len(next(t.views()))
    assert t.events[0]["text"] in tab.locator("#log .event").first.inner_text()
    assert tab.locator(".step").count() == len(t.inferences)
    assert tab.title() == "support · direct – All of support"


def test_the_keys_step_through_inferences_and_samples(tab, made):  # noqa: F811
    press(tab, "ArrowRight", (0, 1))
    assert tab.locator(".line.new").count() > 0
    press(tab, "ArrowLeft", (0, 0))
    press(tab, "ArrowLeft", (0, 0))
    press(tab, "j", (1, 0))
    press(tab, "ArrowDown", (2, 0))
    press(tab, "k", (1, 0))
    press(tab, "ArrowUp", (0, 0))
    press(tab, "ArrowUp", (0, 0))
    tab.locator("#list").evaluate("e => e.focus()")
    press(tab, "ArrowDown", (1, 0))
    last = len(made[1].trajectory.inferences) - 1
    for step in range(1, last + 1):
        press(tab, "ArrowRight", (1, step))
    press(tab, "ArrowRight", (1, last))
    assert tab.locator(".answers .tag").last.inner_text() == "right"


def test_the_filters_and_the_search_narrow_the_list(tab, made):  # noqa: F811
    zh = [i for i, s in enumerate(made) if s.trajectory.session.lang == "zh"]
    tab.select_option("select[data-field=language]", label=f"zh ({len(zh)})")
    assert tab.evaluate("shown") == zh
    tab.wait_for_function(f"current.sample === {zh[0]}")
    found = [i for i in zh if made[i].trajectory.variant == "dropped"]
    tab.select_option("select[data-field=variant]", label=f"dropped ({len(found)})")
    assert tab.evaluate("shown") == found
    assert tab.locator("#rows .row").count() == len(found) >= 3
    tab.wait_for_function(f"current.sample === {found[0]}")
    tab.wait_for_selector(".event .tag.inj")
    assert "dropped by the injection" in tab.locator("#log .event.out").filter(has=tab.locator(".tag.inj")).first.inner_text()
    tab.click("#clear")
    assert tab.evaluate("shown.length") == len(made)
    word = made[5].trajectory.events[0]["text"].split(". ")[0]
    tab.fill("#search", word)
    tab.wait_for_function(f"gathered === {len(made)} && words.length > 0")
    wanted = [i for i, s in enumerate(made) if all(w in tab.evaluate(f"TEXTS[{i}]") for w in word.lower().split())]
    assert tab.evaluate("shown") == wanted
    assert 5 in wanted
    tab.fill("#search", "no such words anywhere")
    tab.wait_for_function("shown.length === 0")
    assert tab.locator("#rows").inner_text() == "Nothing fits. Clear a filter."
    tab.keyboard.press("Escape")
    tab.keyboard.press("j")  # nothing to go to


def test_every_sample_can_be_drawn(tab, made):  # noqa: F811
    for i, s in enumerate(made):
        for step in range(len(s.trajectory.inferences)):
            tab.evaluate(f"go({i}, {step})")
            assert sample(tab) == [i, step]
            assert tab.locator("#viewscroll > .message").count() == tab.evaluate(f"HELD.get({i}).steps[{step}].view.length")


def test_the_view_is_shown_to_the_letter(tab, made):  # noqa: F811
    i = next(i for i, s in enumerate(made) if s.trajectory.variant == "windowed")
    for step, view in enumerate(made[i].trajectory.views()):
        tab.evaluate(f"go({i}, {step})")
        shown = tab.locator("#viewscroll > .message").evaluate_all(
            "all => all.map(m => [...m.querySelectorAll('.line')].map(l => l.textContent.replace('\\u200b', '')).join('\\n'))"
        )
        assert shown == [m.content for m in view]


def test_the_theme_follows_the_system_and_toggles(tab):
    paper = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(paper)
    tab.emulate_media(color_scheme="dark")
    dark = tab.evaluate(paper)
    assert light != dark
    tab.click("#theme")
    assert tab.evaluate(paper) == light
    tab.locator("#theme").evaluate("e => e.blur()")
    tab.keyboard.press("t")
    assert tab.evaluate(paper) == dark
    tab.reload()
    tab.wait_for_selector(".turn")
    tab.emulate_media(color_scheme="light")
    assert tab.evaluate(paper) == dark  # the choice is remembered


def test_an_address_names_a_sample_and_an_inference(browser, file, made):  # noqa: F811
    i = next(i for i, s in enumerate(made) if s.trajectory.variant == "contradicted")
    address = f"#{made[i].trajectory.id.replace('/', '%2F')}/2"
    for tab in opened(browser, file, {"width": 1280, "height": 860}, address):
        assert sample(tab) == [i, 1]
        assert tab.locator(".injected").is_visible()
        tab.keyboard.press("ArrowLeft")
        tab.wait_for_selector(".line.injline")


def test_a_phone_needs_no_sideways_scrolling(phone, made):  # noqa: F811
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert not phone.locator("aside").is_visible()
    for s in (0, 2, next(i for i, s in enumerate(made) if s.trajectory.variant == "windowed"), len(made) - 1):
        for step in range(len(made[s].trajectory.inferences)):
            phone.evaluate(f"go({s}, {step})")
            assert phone.evaluate(wide) == 0
            for name in ("Log", "View"):
                phone.click(f".tab:text-is('{name}')")
                assert phone.locator(f"#{name.lower()}").is_visible()
                assert phone.evaluate(wide) == 0
    phone.click("#menu")
    assert phone.locator("aside").is_visible()
    assert phone.evaluate(wide) == 0
    phone.locator(".row").nth(1).click()
    phone.wait_for_selector(".turn >> visible=true")
    assert not phone.locator("aside").is_visible()


def test_hostile_text_is_shown_and_does_nothing(browser, hostile, tmp_path):  # noqa: F811
    path = tmp_path / "hostile.html"
    write_page([hostile], path, title="</title><img src=x>", intro="<b>bold</b>")
    for tab in opened(browser, path, {"width": 1000, "height": 700}):
        assert tab.locator("img, .app b b").count() == 0
        assert "<img src=x onerror=alert(1)>" in tab.locator("#log .event").first.inner_text()
        assert tab.locator("#intro").inner_text() == "<b>bold</b>"
        assert tab.locator("h1").inner_text() == "</title><img src=x>"
