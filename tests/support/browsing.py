"""A browser without a window, for tests of pages. Skipped where there is no Chromium."""

from __future__ import annotations

import json
import shutil

import pytest

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --no-default-browser-check --disable-dev-shm-usage"
)
CHROME = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")

needed = pytest.mark.skipif(not (CHROME and DRIVER), reason="needs chromium and chromedriver on PATH")


def started(profile):
    """A browser whose profile is in this folder; it keeps what pages log and request."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROME
    for flag in (*FLAGS.split(), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def as_wide(browser, width):
    """Give the page a screen of this width; below 500 a phone's."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


def asked(browser):
    """Addresses of everything that was requested, but for what stands in the page itself or in the browser.

    The browser's own first page (chrome:) may still be loading when a test's first one is; no page can ask for it.
    """
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return {url.partition("#")[0] for url in sent if not url.startswith(("data:", "chrome:"))}
