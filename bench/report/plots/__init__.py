"""The pictures of the page, each an SVG element to stand inside HTML."""
