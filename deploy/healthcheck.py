"""Check whether the server on this machine is ready: ``healthcheck.py PORT``, exit code 0 or 1.

TLS comes first, without checks of the TLS certificate: it has another name, and the request holds no secret.
"""

import http.client
import ssl
import sys


def ready(port: int) -> bool:
    """Return whether /readyz answers 200, over TLS or plain HTTP."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for connection in (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=4, context=context),
        http.client.HTTPConnection("127.0.0.1", port, timeout=4),
    ):
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except ssl.SSLError:
            continue  # plain HTTP behind a proxy
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
    return False


if __name__ == "__main__":
    sys.exit(0 if ready(int(sys.argv[1])) else 1)
