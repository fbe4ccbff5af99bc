"""What holds for every page: measures that are taken in a browser."""

import os
from collections.abc import Sequence
from pathlib import Path

from .browser import Browser

PICTURES = os.environ.get("PICTURES", "")
"""A folder for pictures of the pages, for a person."""

_TOO_WIDE = """
(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const all = [...document.querySelectorAll("body *")];
  const wide = all.filter((one) => one.getBoundingClientRect().right > width);
  return ["page", ...wide.slice(0, 5).map((one) => one.outerHTML.slice(0, 120))];
})()
"""
# WCAG 2.2's contrast of each visible text with the nearest background that is not transparent.
_FAINT = """
(() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const findBack = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const back = parse(getComputedStyle(one).backgroundColor);
      if (back.length === 3 || back[3] === 1) return back;
    }
    return [255, 255, 255];
  };
  const faint = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName)) continue;
    const pair = [parse(getComputedStyle(element).color), findBack(element)];
    const [low, high] = pair.map(luminance).sort((left, right) => left - right);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) faint.add(`${ratio.toFixed(2)}: ${texts.currentNode.data.trim().slice(0, 60)}`);
  }
  return [...faint].slice(0, 10);
})()
"""


def find_too_wide(browser: Browser) -> Sequence[str]:
    """What makes a page scroll sideways; nothing when it does not."""
    return browser.run(_TOO_WIDE)


def find_faint(browser: Browser) -> Sequence[str]:
    """Texts with less contrast than WCAG's AA demands."""
    return browser.run(_FAINT)


def find_text(selector: str, text: str) -> str:
    """An expression: the text of the first of these elements that has one in it."""
    found = f"[...document.querySelectorAll('{selector}')].find((one) => one.innerText.includes('{text}'))"
    return f"{found}.innerText"


def take_picture(browser: Browser, name: str) -> None:
    """Write a picture where the user requested pictures."""
    if PICTURES:
        browser.save_picture(Path(PICTURES, f"{name}.png"))
