"""Names and labels that try to break out of where they are written."""

NASTY = (
    "=cmd|' /C calc'!A0",
    "</script><script>alert(1)</script>",
    "</text></svg><img src=x onerror=alert(1)>",
    "\x1b[31mred\x07\x1b]0;title\x07",
    "[/bold]",
    "[red]x[/red]",
    'quo"te \\ back\\',
    "$\\frac{1",
    "line\nbreak\r\n; x",
    "\u202egnp.exe\u200f",
    "'; drop table x; --",
    "{x} %s {{x}} {%x%}",
    "& &amp; <!-- ]]>",
    "\x00nul\x9b31m",
    "_hidden",
)
CONTROLS = [chr(c) for c in (*range(9), *range(11, 32), 0x7F, *range(0x80, 0xA0), 0x202E, 0x200F)]
