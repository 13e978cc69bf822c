"""The directive `cast-list`: a table of the rule of every op on CPU and CUDA, asked of ampcast itself."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import ampcast


def row(cells: list[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))


class CastListDirective(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        lists = [ampcast.cast_list(device) for device in ("cpu", "cuda")]
        ops = sorted(set().union(*lists))
        body = [row([nodes.literal(op, op), *(nodes.Text(rules.get(op, "unlisted")) for rules in lists)]) for op in ops]
        head = row([nodes.Text(title) for title in ("op", "CPU", "CUDA")])
        columns = [nodes.colspec(colwidth=width) for width in (60, 20, 20)]
        group = nodes.tgroup("", *columns, nodes.thead("", head), nodes.tbody("", *body), cols=3)
        return [nodes.table("", group)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("cast-list", CastListDirective)
    return {"parallel_read_safe": True}
