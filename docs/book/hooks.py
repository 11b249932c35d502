"""Makes of the pages, which are CommonMark for GitHub, what mkdocs reads."""

import re

OUT = re.compile(r"\]\(\.\./([^)\s]+)\)")
# A name in its last part with a suffix is a file.
IS_FILE = re.compile(r"\.[a-z]+(#.*)?$|LICENSE$")
FENCE = re.compile(r"^( *)```")
# What rustdoc reads behind the language, such as `rust,no_run`.
WORDS = re.compile(r"^( *```\w+),.*$")
ITEM = re.compile(r"^(- |\d+\. )")


def on_page_markdown(markdown, config, **_):
    def lead(link):
        """Leads links out of the book, such as to an example, to the repository."""
        path = link.group(1)
        kind = "blob" if IS_FILE.search(path) else "tree"
        return f"]({config['extra']['repository']}/{kind}/main/{path})"

    return "\n".join(indented(OUT.sub(lead, markdown).split("\n")))


def indented(lines):
    """Indents what belongs to an item of a list by four, as Python-Markdown wants it,
    instead of to where the item's text begins."""
    item, in_code, before = None, False, ""
    for line in lines:
        fence = FENCE.match(line)
        if fence and not fence.group(1):
            in_code = not in_code
        elif not in_code and ITEM.match(line):
            # Behind a paragraph of the item before it would be a part of that.
            if before.startswith("    "):
                yield ""
            item = len(ITEM.match(line).group(1))
        elif not in_code and line and not line.startswith(" "):
            item = None
        if item and not in_code and line.startswith(" " * item):
            line = "    " + line[item:]
        before = line
        yield WORDS.sub(r"\1", line)
