"""Drawings of a graph of features: what to draw, its layout, and its SVG.

`plan_drawing` decides what to draw, `lay_out` where, and `draw_svg` or matplotlib renders it.
"""

from tanager.drawing.layout import GraphLayout, lay_out, shorten
from tanager.drawing.plan import Arrow, DrawingPlan, DrawnGraph, plan_drawing
from tanager.drawing.svg import draw_svg

__all__ = [
    "Arrow",
    "DrawingPlan",
    "DrawnGraph",
    "GraphLayout",
    "draw_svg",
    "lay_out",
    "plan_drawing",
    "shorten",
]
