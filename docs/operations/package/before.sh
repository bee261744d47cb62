#!/bin/sh
# Builds the Debian package of an older commit, with that commit's own tree: before.sh COMMIT FILE. It writes no file, and
# says so, where the history does not go back so far, as in a shallow clone.
set -eu
commit=$1 file=$2
rm -f "$file"
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
  echo "not built: the history here does not have the older commit $commit"
  exit 0
fi
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git clone --quiet --shared --no-checkout "$(git rev-parse --show-toplevel)" "$tree"
git -C "$tree" checkout --quiet "$commit"
arch=$(go env GOARCH)
(cd "$tree" && go run ./cmd/dist -arch "$arch")
mkdir -p "$(dirname "$file")"
cp "$tree"/bin/dist/kestrel_*_"$arch".deb "$file"
