"""The page of a scored run in a real browser: it opens, sorts, filters and steps, and leads to the same sample of the other arms.

Needs Chromium from the system's packages (see test_viewer_browser.py).
"""

from __future__ import annotations

import statistics

import pytest
from test_eval_view import config, made, numbers, scores, stored  # noqa: F401 - fixtures
from test_viewer_browser import browser, opened, sample  # noqa: F401 - fixture
from viewer_run import ARMS, PAINTED, meter_of, spent

pytestmark = pytest.mark.real
WIDE = {"width": 1280, "height": 860}


@pytest.fixture
def tab(browser, made):  # noqa: F811
    yield from opened(browser, made[0].path, WIDE)


def shown(tab):
    """Ids of the list as it stands, the rows drawn among them in the same order."""
    ids = tab.evaluate("shown.map((n) => ROWS[n].id)")
    drawn = tab.evaluate("[...document.querySelectorAll('#rows .row')].map((r) => ROWS[r.dataset.number].id)")
    first = ids.index(drawn[0]) if drawn else 0
    assert ids[first : first + len(drawn)] == drawn
    return ids


def go_to(tab, name, step=0):
    tab.evaluate("([id, step]) => go(ROWS.findIndex((r) => r.id === id), step)", [name, step])
    tab.wait_for_function("(id) => document.querySelector('.id')?.textContent === id", arg=name)


def test_it_opens_with_every_episode_and_the_filters(tab, scores):  # noqa: F811
    assert tab.locator("#count").inner_text() == f"{len(scores)} episodes"
    names = tab.locator("#fields select").evaluate_all("all => all.map((s) => s.dataset.field)")
    assert {"arm", "family", "variant", "signal", "cause", "task", "reads", "language"} <= set(names)
    assert "question" not in names
    assert tab.title().endswith("– Episodes of viewer")


def test_it_sorts_by_every_number_both_ways(tab, stored):  # noqa: F811
    rows = {row["id"]: numbers(stored, n) for n, row in enumerate(stored.listing["rows"])}
    names = tab.locator("#sort option").all_inner_texts()
    assert names == ["order of the file", *next(iter(rows.values()))]
    assert {"tokens", "inferences", "reward q", "saving s", "reads"} < set(names)
    for name in names[1:]:
        tab.select_option("#sort", label=name)
        down = [rows[i][name] for i in shown(tab)]
        assert down == sorted(down, reverse=True)
        assert down[0] != down[-1]
        tab.click("#turnaround")
        up = [rows[i][name] for i in shown(tab)]
        assert up == sorted(up)
    tab.select_option("#sort", label="order of the file")
    assert shown(tab) == list(rows)
    tab.locator("#sort").evaluate("e => e.blur()")
    tab.keyboard.press("r")
    assert shown(tab) == list(rows)[::-1]
    tab.keyboard.press("s")
    assert tab.evaluate("document.activeElement.id") == "sort"


def test_the_arrow_keys_follow_the_sorted_and_filtered_list(tab, scores):  # noqa: F811
    tab.select_option("#sort", label="tokens")
    tab.select_option("select[data-field=arm]", "1")
    tab.wait_for_function("current.sample === shown[0]")
    tab.locator("select[data-field=arm]").evaluate("e => e.blur()")
    wanted = shown(tab)
    assert {scores[i]["arm"] for i in wanted} == {"fabricator"}
    for name in wanted[1:4]:
        tab.keyboard.press("j")
        tab.wait_for_function("(id) => ROWS[current.sample].id === id", arg=name)


def test_causes_signals_and_families_filter_together(tab, scores):  # noqa: F811
    row = next(r for r in scores.values() if r["cause"] and r["signal"] == "asked")
    wanted = [
        n for n, r in scores.items() if (r["cause"], r["signal"], r["family"]) == (row["cause"], row["signal"], row["family"])
    ]
    for field in ("cause", "signal", "family"):
        option = tab.locator(f"select[data-field={field}] option").filter(has_text=row[field] + " (")
        tab.select_option(f"select[data-field={field}]", option.get_attribute("value"))
    assert sorted(shown(tab)) == sorted(wanted)
    told = tab.locator("select[data-field=family] option:checked").inner_text()
    assert told == f"{row['family']} ({len(wanted)})"


def test_it_leads_to_the_same_sample_of_the_other_arms(tab, scores):  # noqa: F811
    at = next(r["sample"] for r in scores.values() if r["variant"] == "superseded")
    go_to(tab, f"always_read/{at}", 1)
    siblings = tab.locator(".sibling")
    assert [text.split()[0] for text in siblings.all_inner_texts()] == list(ARMS)
    assert tab.locator(".sibling[aria-current]").inner_text().startswith("always_read")
    siblings.first.click()
    tab.wait_for_function("(id) => document.querySelector('.id').textContent === id", arg=f"expert/{at}")
    assert sample(tab)[1] == 1  # at the same inference
    for arm in (*ARMS[1:], ARMS[0]):
        tab.keyboard.press("o")
        tab.wait_for_function("(id) => document.querySelector('.id').textContent === id", arg=f"{arm}/{at}")


def test_it_tells_what_was_spent_and_rewarded(tab, stored, scores):  # noqa: F811
    number = max(range(len(stored.blocks)), key=lambda n: len(stored.blocks[n]["steps"]))
    name, held = stored.listing["rows"][number]["id"], stored.blocks[number]
    go_to(tab, name)
    tab.keyboard.press("End")
    last = len(held["steps"]) - 1
    tab.wait_for_function(
        f"current.step === {last} && document.querySelector('.step[aria-current]').textContent === '{last + 1}'"
    )
    facts = tab.locator(".stepbar .facts").inner_text()
    step, total = held["steps"][-1], scores[name]["score"]["tokens"]
    assert (
        f"{step['in']:,} tokens in ({step['shared']:,} shared with the call before) · {step['sampled']:,} out · {total:,} so far"
        in facts
    )
    tab.click(".ledger summary")
    rows = tab.locator(".ledger table").first.locator("tbody tr")
    assert rows.count() == len(held["steps"])
    cells = rows.last.locator(".n").all_inner_texts()
    assert cells == [f"{n:,}" for n in (step["in"], step["shared"], step["sampled"], total)]
    rows.nth(1).locator("button").click()
    tab.wait_for_function("current.step === 1")
    assert tab.locator(".ledger").get_attribute("open") is not None  # stays open on the way
    credit = tab.locator(".ledger table").last.inner_text()
    assert f"reward q\t\t{held['q']:.2f}".split() == credit.split("saving s")[0].split()[-3:]
    assert f"{held['s']:.2f}" in credit.split("saving s")[1]


def test_it_says_whether_the_needed_value_was_in_the_input(tab, scores):  # noqa: F811
    for wanted, word in ((True, "yes"), (False, "no")):
        name = next(n for n, r in scores.items() if r["needed_in_input"] is wanted and r["source"] == "probe")
        go_to(tab, name)
        tab.keyboard.press("End")
        tab.wait_for_selector(".answers")
        assert tab.locator(".answers small." + word).first.inner_text() == f"needed value in the exact input: {word}"


def test_an_address_that_is_not_there_is_told(browser, made):  # noqa: F811
    for tab in opened(browser, made[0].path, WIDE, "#nobody%2Fx/3"):
        assert "nobody/x is not on this page" in tab.locator("#notice").inner_text()
        assert sample(tab) == [0, 0]
        tab.keyboard.press("j")
        tab.wait_for_function("current.sample === 1")
        assert not tab.locator("#notice").is_visible()


def test_the_links_of_the_report_open_their_episode(browser, config, made):  # noqa: F811
    context = browser.new_context(viewport=WIDE, offline=True)
    tab = context.new_page()
    tab.goto(f"file://{config.folder / 'report.html'}")
    tab.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    link = tab.locator("a[href^='episodes.html']").first
    summary = link.locator("xpath=ancestor::details[1]/summary").inner_text().split()
    link.click()
    tab.wait_for_selector(".turn")
    assert tab.locator(".id").inner_text() == f"{summary[0]}/{summary[1]}"
    assert tab.evaluate("current.step + 1 === ROWS[current.sample].steps")
    context.close()


def test_the_keys_are_told(tab):
    tab.keyboard.press("?")
    assert tab.locator("#help").is_visible()
    assert "the same sample, played by the next arm" in tab.locator("#help").inner_text()
    tab.keyboard.press("j")  # the page behind stays
    assert sample(tab) == [0, 0]
    tab.keyboard.press("Escape")
    assert not tab.locator("#help").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it_without_sideways_scrolling(browser, made, stored, scheme):  # noqa: F811
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    long = max(range(len(stored.blocks)), key=lambda n: len(stored.blocks[n]["steps"]))
    for tab in opened(browser, made[0].path, {"width": 375, "height": 740}, has_touch=True, is_mobile=True, color_scheme=scheme):
        paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, paper[4:-1].split(","))) < 200) == (scheme == "dark")
        for number in (0, long):
            go_to(tab, stored.listing["rows"][number]["id"])
            tab.evaluate("document.querySelectorAll('#sample details').forEach((d) => (d.open = true))")
            assert tab.locator(".ledger").is_visible()
            assert tab.evaluate(wide) == 0
        tab.click("#menu")
        tab.select_option("#sort", label="tokens")
        assert tab.evaluate(wide) == 0
        assert tab.evaluate("shown[0]") == tab.evaluate("NUMBERS[0].rows.indexOf(Math.max(...NUMBERS[0].rows))")


def test_a_choice_is_on_the_screen_at_once(tab):
    """The bounds of the 2,000-episode page (tests/bench) on a small one, in processor time: a busy machine is not the page's doing."""
    tab.wait_for_function("gathered === ROWS.length")
    tab.evaluate(PAINTED)
    acts = {
        "filter": ("(i) => painted(() => choose(field('arm'), String(i % 4)), () => shown.length < ROWS.length && drawn())", 200),
        "sort": ("(i) => painted(() => choose(document.getElementById('sort'), String(i)), drawn)", 200),
        "step": ("(i) => painted(() => press(i % 2 ? 'ArrowLeft' : 'ArrowRight'), drawn)", 100),
    }
    meter = meter_of(tab)
    for name, (act, most) in acts.items():
        times = []
        for i in range(5):
            before = spent(meter)
            tab.evaluate(act, i)
            times.append(spent(meter) - before)
        assert 0 < statistics.median(times) < most, name
