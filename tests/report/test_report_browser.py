"""The page as a browser shows it. Needs a chromium binary on the PATH."""

import html
import re
import shutil
import subprocess

import pytest
from PIL import Image


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason=f"no browser found: none of {', '.join(BROWSERS)} is on the PATH"),
]
POLICY = 'http-equiv="Content-Security-Policy"'
MEASURE = (
    "<script>const e = document.documentElement; parent.document.title = e.clientWidth + ' ' + e.scrollWidth</script>"
)


@pytest.fixture
def browse(tmp_path):
    """Run chromium on a page, offline, with a profile of its own."""

    def run(page, *options):
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        command += ["--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars"]
        command += ["--proxy-server=127.0.0.1:9", f"--user-data-dir={tmp_path / 'profile'}"]
        done = subprocess.run([*command, *options, page.as_uri()], capture_output=True, timeout=180, check=True)
        return done.stdout.decode("utf-8")

    return run


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (400, "light")])
def test_the_page_can_be_seen(page, browse, tmp_path, width, scheme):
    picture = tmp_path / "page.png"
    settings = f"--blink-settings=preferredColorScheme={('dark', 'light').index(scheme)}"
    browse(page, f"--screenshot={picture}", f"--window-size={width},3000", settings)
    with Image.open(picture) as image:
        assert image.size == (width, 3000)
        counts = {colour: count for count, colour in image.convert("RGB").getcolors(maxcolors=1 << 24)}
    grounds = [(246, 247, 249), (255, 255, 255)] if scheme == "light" else [(20, 23, 27), (29, 33, 39)]
    assert sorted(counts, key=counts.get)[-2:] in (grounds, grounds[::-1]), "page and cards make up most of it"
    assert len(counts) > 500, "text and curves have many shades; an empty page has few"


def test_the_browser_reads_the_numbers(page, browse):
    dom = browse(page, "--dump-dom")
    for words in ("78.5 %", "72.8 to 84.2 %", "+47.5 percentage points", "3 min 5 s", "pass@4", "94.2 %"):
        assert words in dom
    assert dom.count("<svg") == 13


@pytest.mark.parametrize("policy", [True, False], ids=["as_written", "without_the_policy"])
def test_a_hostile_completion_does_not_run(hostile_page, browse, tmp_path, policy):
    text = hostile_page.read_text(encoding="utf-8")
    copy = tmp_path / "copy.html"
    copy.write_text(text if policy else text.replace(POLICY, 'name="none"'), encoding="utf-8")
    dom = browse(copy, "--dump-dom")
    assert "<title>quickstart – run report</title>" in dom
    assert "&lt;script&gt;document.title = 'owned'" in dom
    assert "<script" not in dom
    assert "<img" not in dom


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_sticks_out_of_the_page(hostile_page, browse, tmp_path, width):
    text = hostile_page.read_text(encoding="utf-8").replace(POLICY, 'name="none"')
    text = text.replace("<details>", "<details open>").replace("</body>", f"{MEASURE}</body>")
    frame = tmp_path / "frame.html"  # a window has a least width, a frame has none
    frame.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><title>-</title>'
        f'<iframe width="{width}" height="900" frameborder="0" srcdoc="{html.escape(text)}"></iframe>',
        encoding="utf-8",
    )
    found = re.search(r"<title>(\d+) (\d+)</title>", browse(frame, "--dump-dom"))
    assert found, "the page was not measured"
    client, scroll = map(int, found.groups())
    assert client == width
    assert scroll <= client
