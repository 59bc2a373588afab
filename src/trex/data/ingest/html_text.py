"""The text of a web page by selectolax: the main part, headings, lists, tables and code as Markdown has them, formulae
as TeX where the page holds it. No script runs, no entity is defined, nothing is fetched.
"""

import re
from typing import Any

from trex.data.ingest.reading import Reading, Refused, one_line, optional

SKIPPED = {
    "head", "script", "style", "noscript", "template", "nav", "footer", "aside", "form", "button", "select", "iframe",
    "object", "embed", "svg", "canvas", "audio", "video", "dialog", "-comment",
}  # fmt: skip
ROLES = {"navigation", "banner", "contentinfo", "search", "complementary", "menu", "dialog"}
BLOCKS = {
    "p", "div", "section", "article", "main", "header", "blockquote", "ul", "ol", "dl", "dt", "dd", "table", "figure",
    "figcaption", "address", "hr", "details", "summary", "body", "caption",
}  # fmt: skip
LISTS = {"ul", "ol", "table"}
LINKS, LINKED = 4, 0.8  # links and share of linked text from which a list is a menu
MAIN = 200  # characters that the main part of a page has at least
TEX = {"application/x-tex", "text/tex", "latex"}
SPACE = re.compile(r"\s+")


def read_html(text: str) -> Reading:
    """Text and title of a page. Raises Refused where it has no text."""
    parser = optional("selectolax.lexbor", "reading HTML files")
    try:
        tree = parser.LexborHTMLParser(text)
        found = tree.css_first("title") or tree.css_first("h1")
        title = one_line(found.text()) if found is not None else ""
        root = _main(tree)
        body = _text(root) if root is not None else ""
    except MemoryError:
        raise
    except Exception as error:  # of the library any
        raise Refused("html", f"{type(error).__name__}: {one_line(str(error))}") from None
    if not body.strip():
        raise Refused("empty", "the page has no text outside of menus and scripts")
    return Reading(body, title)


def _main(tree: Any) -> Any:
    """The part of a page that it calls its main one; its body where there is none of any length."""
    articles = tree.css("article")
    for node in [tree.css_first("main"), tree.css_first("[role=main]"), *(articles if len(articles) == 1 else [])]:
        if node is not None and len(node.text(strip=True)) >= MAIN:
            return node
    return tree.body


def _text(root: Any) -> str:
    out: list[str] = []
    work: list[Any] = [root]  # nodes to enter, and texts that follow them
    while work:
        node = work.pop()
        if isinstance(node, str):
            out.append(node)
            continue
        tag = node.tag
        if tag == "-text":
            out.append(SPACE.sub(" ", node.text_content or ""))
            continue
        attributes = node.attributes
        if (formula := _formula(node, tag, attributes)) is not None:
            out.append(formula)
        elif tag == "pre":
            out.append(f"\n\n```\n{node.text().strip(chr(10))}\n```\n\n")
        elif not _skipped(node, tag, attributes):
            before, after = _marks(tag)
            out.append(before)
            work.append(after)
            work += reversed(list(node.iter(include_text=True)))
    lines = [line.rstrip() if fenced else SPACE.sub(" ", line).strip(" ") for line, fenced in _fenced("".join(out))]
    return "\n".join(lines)


def _marks(tag: str) -> tuple[str, str]:
    if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
        return f"\n\n{'#' * int(tag[1])} ", "\n\n"
    if tag == "br":
        return "\n", ""
    if tag == "li":
        return "\n- ", ""
    if tag == "tr":
        return "\n| ", ""
    if tag in ("td", "th"):
        return "", " | "
    return ("\n\n", "\n\n") if tag in BLOCKS else ("", "")


def _formula(node: Any, tag: str, attributes: dict[str, str | None]) -> str | None:
    """The TeX of a formula, None for what is none."""
    if tag == "math":
        found = next((n for n in node.css("annotation") if n.attributes.get("encoding") in TEX), None)
        tex = SPACE.sub(" ", attributes.get("alttext") or (found.text() if found is not None else "") or node.text())
        mark = "$$" if attributes.get("display") == "block" else "$"
    elif tag == "script" and (kind := attributes.get("type") or "").startswith("math/tex"):
        tex, mark = SPACE.sub(" ", node.text()), "$$" if "display" in kind else "$"
    else:
        return None
    return f" {mark}{tex.strip()}{mark} " if tex.strip() else ""


def _skipped(node: Any, tag: str, attributes: dict[str, str | None]) -> bool:
    if tag in SKIPPED or "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    if (attributes.get("role") or "") in ROLES:
        return True
    if tag in LISTS and len(links := node.css("a")) >= LINKS:
        linked = sum(len(link.text(strip=True)) for link in links)
        return linked >= LINKED * len(node.text(strip=True))
    return False


def _fenced(text: str) -> list[tuple[str, bool]]:
    """Lines, and whether they are of a code block."""
    out, inside = [], False
    for line in text.split("\n"):
        if line.startswith("```"):
            inside = not inside
        out.append((line, inside))
    return out
