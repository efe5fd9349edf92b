#!/bin/sh
# Chromium for the tests of the web page. Never fails: without it those tests are skipped (or fail, where CI=true).
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ -n "$VARSDOC_CHROMIUM" ] && [ -x "$VARSDOC_CHROMIUM" ]; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing Chromium for the browser tests." >&2
  export DEBIAN_FRONTEND=noninteractive
  if apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 ||
    { apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; }; then
    exit 0
  fi
fi
echo "No Chromium: the tests of the web page will be skipped. Install it with your package manager" >&2
echo "(Debian, Ubuntu: sudo apt-get install chromium), or name one in VARSDOC_CHROMIUM." >&2
exit 0
