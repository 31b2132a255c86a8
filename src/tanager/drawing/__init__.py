"""A graph of features as a picture: what is drawn, where it stands, and the SVG of it.

`plan_drawing` says what is drawn, `lay_out` where, and `draw_svg` writes it. Pictures
by matplotlib (`tanager.report.plot_network`) follow the same plan and layout.
"""

from tanager.drawing.layout import GraphLayout, lay_out, shorten
from tanager.drawing.plan import Arrow, Box, DrawingPlan, DrawnGraph, Legend, plan_drawing
from tanager.drawing.svg import draw_svg

__all__ = [
    "Arrow",
    "Box",
    "DrawingPlan",
    "DrawnGraph",
    "GraphLayout",
    "Legend",
    "draw_svg",
    "lay_out",
    "plan_drawing",
    "shorten",
]
