"""Asks the server on this machine whether it is ready: ``healthcheck.py PORT``, exit code 0 or 1.

Over TLS first, without looking at the certificate: it is issued to another name, and what is asked is no secret.
"""

import http.client
import ssl
import sys


def ready(port: int) -> bool:
    """Whether /readyz answers 200, over TLS or without."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for asked in (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=4, context=context),
        http.client.HTTPConnection("127.0.0.1", port, timeout=4),
    ):
        try:
            asked.request("GET", "/readyz")
            return asked.getresponse().status == 200
        except ssl.SSLError:
            continue  # it speaks plain HTTP, behind a proxy
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asked.close()
    return False


if __name__ == "__main__":
    sys.exit(0 if ready(int(sys.argv[1])) else 1)
