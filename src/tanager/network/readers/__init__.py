"""Networks as other programs write them: BIF, XMLBIF, XDSL and NET."""

from tanager.network.readers.opening import FORMATS, open_network

__all__ = ["FORMATS", "open_network"]
