"""Widgets for notebooks: a live monitor and a control panel.

Rule of this package: what it shows and does is handed to it; it knows neither the kernel nor the pool's
service. It needs anywidget and ipywidgets, which the base installation does not have, so nothing of it is
imported before somebody asks for a widget.
"""

from __future__ import annotations
