"""How the documentation is built: MyST pages, and pages made from the code so that they cannot lag behind."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(HERE.parent))

from jupyter_gpupool._version import version as installed_version  # noqa: E402 - found by the path above

project = "jupyter_gpupool"
author = "jupyter_gpupool contributors"
copyright = "2026, jupyter_gpupool contributors"  # noqa: A001 - Sphinx's name
version = release = installed_version()

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "generated_pages"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_generated", "examples"]

autodoc_typehints = "description"
napoleon_google_docstring = False
napoleon_numpy_docstring = True

html_theme = "pydata_sphinx_theme"
html_title = "jupyter_gpupool"
html_static_path: list[str] = []
html_show_sourcelink = False
html_sidebars = {"**": []}
html_theme_options = {
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
}
