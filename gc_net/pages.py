"""Web pages from templates: jinja2, escaped by default, each page one file that needs no other."""

import base64
import functools
import hashlib
import importlib.resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2


@functools.cache
def environment(package: str) -> "jinja2.Environment":
    """Return the jinja2 environment of the templates that lie in a package.

    Values in a template are escaped, unless they are `Markup`. A missing value is an error.
    """
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _read(package, name)),
        autoescape=True,
        finalize=_encodable,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_page(package: str, name: str, **values: Any) -> str:
    """Return `<name>.html` of a package, filled in.

    Besides `values`, the template gets `style` and `script`, the unescaped content of `<name>.css`
    and `<name>.js`, and `script_hash`.
    """
    from markupsafe import Markup

    return (
        environment(package)
        .get_template(f"{name}.html")
        .render(
            style=Markup(_read(package, f"{name}.css")),
            script=Markup(_read(package, f"{name}.js")),
            script_hash=script_hash(package, name),
            **values,
        )
    )


def script_hash(package: str, name: str) -> str:
    """Return the hash of a page's script for a content-security policy that allows only it."""
    digest = hashlib.sha256(_read(package, f"{name}.js").encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _read(package, name):
    return importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")


def _encodable(value):
    """Return a value as text that can be encoded; a file name may have undecodable bytes."""
    if value is None or hasattr(value, "__html__"):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()
