"""Distinguishes a server's own page from pages of other hosts.

Any web page can make its visitor's browser send requests to a server on the visitor's machine. The
browser marks them: `Origin` and `Sec-Fetch-Site` name the page they come from. If a page's host
    name has been redirected to this machine, the browser treats the page as ours. But the `Host` of
    its requests is still that name. An address in numbers cannot be redirected.
"""

import ipaddress
import urllib.parse

from werkzeug.exceptions import Forbidden

_OWN_SITES = (None, "same-origin", "none")  # "none": typed by the user


def check_origin(request, allowed_hosts=()):
    """Raise `Forbidden` for a request that a page of another host has sent.

    Args:
        request: A werkzeug `Request`.
        allowed_hosts: Names of this server, besides addresses in numbers and `localhost`.
    """
    host = request.headers.get("Host", "")
    name = _host_name(host)
    if name not in ("localhost", *allowed_hosts) and not _is_address(name):
        raise Forbidden(
            f"This server does not go by the name {name!r:.100}. Use its address, or start it with "
            "--allowed_hosts."
        )
    if request.method in ("GET", "HEAD"):
        return  # nothing is changed, and without CORS headers no other page can read the answer
    origin = request.headers.get("Origin")
    own = origin is None or _netloc(origin) == host.lower()
    if not own or request.headers.get("Sec-Fetch-Site") not in _OWN_SITES:
        raise Forbidden("This server answers its own page only, not those of other hosts.")


def _netloc(origin):
    try:
        return urllib.parse.urlsplit(origin).netloc.lower()
    except ValueError:  # e.g. half an address
        return None


def _host_name(host):
    try:
        return urllib.parse.urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name):
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
