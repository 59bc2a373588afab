"""Documents made for the tests: texts that pass the filters, and PDF files written by hand."""

import random

SIMPLEX = """The simplex method solves a linear program by walking from vertex to vertex of the feasible region.
At each step a variable with a negative reduced cost enters the basis, and the ratio test decides which one leaves it.
The method stops when no reduced cost is negative, and the dual variables then certify that the plan is optimal.
Degenerate vertices may let it cycle, which the rule of Bland prevents: of all candidates take that of least index.
In practice most of the time goes into solving two linear systems with the basis matrix, which is kept in factors."""

ROUTING = """A haulier has to serve forty customers with six vans that leave from one depot and come back at night.
Each customer asks for a known number of pallets, no van can carry more than twelve, and everybody is visited once.
The goal is to have the shortest total distance, so the decision variables say which road is taken by which vehicle.
Constraints that forbid tours without the depot are far too many to be written down, and are added when they are broken.
Savings heuristics give a good start, while branch and cut proves how far from the best that plan can be."""

GERMAN = """Ein Unternehmen plant die Produktion von zwei Erzeugnissen auf drei Maschinen, deren Kapazität begrenzt ist.
Gesucht ist der Plan mit dem größten Deckungsbeitrag, der alle Nebenbedingungen einhält und ganzzahlig ist.
Die Aufgabe lässt sich als lineares Programm schreiben und mit dem Simplexverfahren oder einem Löser behandeln.
Für jede Maschine gibt es eine Ungleichung, und die Schattenpreise sagen, was eine weitere Stunde wert wäre."""

CHINESE = """线性规划是运筹学中研究较早、发展较快、应用广泛的一个重要分支，它是辅助人们进行科学管理的一种数学方法。
建立模型时先确定决策变量，再写出目标函数和约束条件，最后用单纯形法求出最优解。
如果要求变量只能取整数，就得到整数规划问题，通常使用分支定界或割平面的方法来求解。
企业常用这些模型安排生产计划、运输路线和库存水平，从而降低成本、提高收入。"""

LISTED = """
plan depot truck order worker shift machine batch lot price profit margin route crew plant field harvest bond
share boiler turbine valve pipe tank mixer oven press loom dye cloth shirt shelf store stock demand season
holiday week month budget loan rate tax permit quota limit bound model node arc graph tree cut branch dual
basis vertex column row matrix vector step start finish delay buffer queue server agent call ticket gate
flight runway port crane ship
"""
WORDS = LISTED.split()
STOPS = ["the", "of", "and", "to", "with", "that", "have", "be", "is", "for", "in", "on", "a"]


def text(seed: int, sentences: int = 12) -> str:
    """Sentences of random words: no two seeds have a run of words in common, but by chance."""
    rng = random.Random(seed)
    lines = []
    for _ in range(sentences):
        picked = [rng.choice(STOPS) if k % 2 else rng.choice(WORDS) for k in range(rng.randint(9, 15))]
        lines.append(" ".join(picked).capitalize() + ".")
    return "\n".join(lines)


def pdf(pages: list[list[str]], title: str = "", extra: bytes = b"") -> bytes:
    """A PDF with the lines of each page, written from the specification (ISO 32000-1, 7.5), not by a library."""
    count = len(pages)
    kids = b" ".join(b"%d 0 R" % (4 + 2 * k) for k in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for k, lines in enumerate(pages):
        shown = b"".join(b"(%s) Tj T*\n" % _escaped(line) for line in lines)
        stream = b"BT /F1 11 Tf 13 TL 50 800 Td\n" + shown + b"ET" + extra
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (5 + 2 * k)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    objects.append(b"<< /Title (%s) >>" % _escaped(title))
    out, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    last = len(objects)
    return out + b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (last + 1, last, start)


def _escaped(line: str) -> bytes:
    return line.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
