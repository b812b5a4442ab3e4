#!/bin/sh
# Rebuilds echarts.min.js, LICENSE and NOTICE from the npm package, at the
# versions that package.json and package-lock.json pin. Needs npm and the network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/package.json" "$here/package-lock.json" "$here/entry.js" "$work/"
cd "$work"
npm ci --no-audit --no-fund
npx esbuild entry.js --bundle --minify --format=iife --global-name=echarts --target=es2020 \
  --legal-comments=none --charset=ascii --define:process.env.NODE_ENV='"production"' --outfile="$here/echarts.min.js"
cp node_modules/echarts/LICENSE "$here/LICENSE"
cp node_modules/echarts/NOTICE "$here/NOTICE"
# zrender and tslib come along in the bundle under licences of their own.
{ printf '\n\n---- zrender (BSD 3-Clause) ----\n\n'; cat node_modules/zrender/LICENSE
  printf '\n\n---- tslib (0BSD) ----\n\n'; cat node_modules/tslib/LICENSE.txt; } >> "$here/LICENSE"
