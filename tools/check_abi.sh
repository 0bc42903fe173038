#!/usr/bin/env bash
# check_abi.sh LIBRARY: its exported symbols and their versions are those of tools/abi.txt, and it needs no library
# beyond the few below; and a program can open it late.
# After a wanted change: check_abi.sh LIBRARY --update
set -euo pipefail
library=$1
list=$(dirname "$0")/abi.txt
allowed='^(libc|libm|libstdc\+\+|libgcc_s|libcrypto|libssl|ld-linux[-a-z0-9]*)\.so\.[0-9]+$'

# The absolute symbols are the names of the versions.
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $NF}' | LC_ALL=C sort)
if [ "${2:-}" = --update ]; then
  echo "$exported" > "$list"
  exit 0
fi
code=0
foreign=$(grep -v '^tutti' <<< "$exported" || true)
if [ -n "$foreign" ]; then
  printf 'exported but not tutti*:\n%s\n' "$foreign"
  code=1
fi
if ! diff -u --label tools/abi.txt --label "$library" "$list" - <<< "$exported"; then
  echo "the exported symbols differ from tools/abi.txt (wanted? then: tools/check_abi.sh $library --update)"
  code=1
fi
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
surplus=$(grep -vE "$allowed" <<< "$needed" || true)
if [ -n "$surplus" ]; then
  printf 'needs libraries that it must not need:\n%s\n' "$surplus"
  code=1
fi
soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
case $soname in
  libtutti.so.[0-9]*) ;;
  *) echo "its soname is '$soname'"; code=1 ;;
esac
# CUDA's runtime has 8 KiB a thread. In the part that is set aside for libraries that a program opens late there is less.
if readelf -d "$library" | grep -q STATIC_TLS; then
  echo "it asks for static thread-local storage (a variable with tls_model initial-exec?), so Python could not load it"
  code=1
fi
exit $code
