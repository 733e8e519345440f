#!/bin/sh
# Installs feishuperm for the current user: no root, no shell start-up file touched.
# Nothing runs before the last line, so a script that was cut off does nothing.
set -eu

# Filled in by a release, or by the server that hands this script out.
version=''
url=''
sha256=''

# As the program does it: what the setting says, else what the locale names.
choose_language() {
  language=${FEISHUPERM_LANG-}
  [ -z "$language" ] || return 0
  case ${LC_ALL:-${LC_MESSAGES:-${LANG-}}} in
    zh*.[Uu][Tt][Ff]8* | zh*.[Uu][Tt][Ff]-8*) language=zh ;;
  esac
}

usage() {
  if [ "$language" = zh ]; then usage_zh; else usage_en; fi
}

usage_en() {
  cat <<'END'
usage: install.sh [OPTION...]

Installs feishuperm for the current user, registers its hooks in Claude Code's
settings, and starts its server. Run it again to upgrade.

  --from FILE|URL   install this file (default: what this script was made for,
                    the file beside it, or the build of the clone it lies in)
  --version X       refuse anything but version X
  --sha256 HEX      the checksum the file must have
  --prefix DIR      where share/ and bin/ are (default: ~/.local)
  --no-service      do not start the server, do not keep it running
  --no-hooks        leave Claude Code's settings alone
  --webhook URL     the Feishu group bot (better: set FEISHU_WEBHOOK_URL, which
                    no other user can see in the process list)
  --secret TEXT     its signing secret (better: set FEISHU_WEBHOOK_SECRET)
  --allow-http      download over plain http from another machine
  --dry-run         only say what would be done
  --uninstall       undo everything; keeps your settings and the decision log
  --purge           with --uninstall: remove those too
  --help            this text

Every other option goes to `feishuperm install`; see `feishuperm install --help`.

The checksum inside this script proves that the file is the very one this script
was made for: no broken, stale or swapped download. It cannot help when the script
itself comes from a bad place.
END
}

usage_zh() {
  cat <<'END'
用法：install.sh [选项...]

为当前用户安装 feishuperm，在 Claude Code 的设置里注册钩子，并启动服务。
再次运行就是升级。

  --from FILE|URL   安装这个文件（默认：本脚本所对应的文件、与它同目录的文件，
                    或它所在的克隆构建出的文件）
  --version X       只接受版本 X
  --sha256 HEX      文件必须具有的校验和
  --prefix DIR      share/ 和 bin/ 所在的目录（默认 ~/.local）
  --no-service      不启动服务，也不让它常驻
  --no-hooks        不改动 Claude Code 的设置
  --webhook URL     飞书群机器人的地址（最好改用环境变量 FEISHU_WEBHOOK_URL，
                    其他用户在进程列表里看不到它）
  --secret TEXT     它的签名密钥（最好改用 FEISHU_WEBHOOK_SECRET）
  --allow-http      允许用明文 http 从另一台机器下载
  --dry-run         只说明会做什么
  --uninstall       全部撤销；保留你的设置和决定记录
  --purge           与 --uninstall 同用：这些也一并删除
  --help            显示这些说明

其他选项交给 `feishuperm install`，见 `feishuperm install --help`。

脚本里的校验和证明下载的正是本脚本所对应的那个文件：没有损坏、过期或被调换。
如果脚本本身来自不可靠的地方，它帮不上忙。
END
}

# say ENGLISH CHINESE
say() {
  [ "$language" != zh ] || shift
  printf '%s\n' "feishuperm: $1" >&2
}

# die ENGLISH CHINESE [HINT HINT_IN_CHINESE [CODE]]
die() {
  say "$1" "$2"
  if [ "$language" = zh ]; then hint=${4:+提示：$4}; else hint=${3:+hint: $3}; fi
  [ -z "$hint" ] || printf '%s\n' "$hint" >&2
  exit "${5-1}"
}

# A Python of 3.9 or newer. What it calls itself is the real one, also behind the
# shims of pyenv and asdf.
find_python() {
  for name in python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 \
    python3 /usr/bin/python3 /usr/local/bin/python3 /opt/homebrew/bin/python3; do
    python=$("$name" -I -S -c 'import sys
if sys.version_info >= (3, 9): print(sys.executable)' 2>/dev/null) || continue
    [ -n "$python" ] && [ -x "$python" ] && return
  done
  die 'no Python 3.9 or newer found' '没有找到 Python 3.9 或更新的版本' \
    'install one, for example: apt install python3' '请先安装，例如：apt install python3'
}

# `sudo` and `doas` may keep the HOME of a user, who could not change root's files there.
refuse_another_home() {
  owner=$("$python" -I -S -c 'import os, pwd
uid = os.stat(os.environ["HOME"]).st_uid
if uid and os.geteuid() == 0:
    names = [row.pw_name for row in pwd.getpwall() if row.pw_uid == uid]
    print((names or [uid])[0])' 2>/dev/null) || owner=''
  [ -z "$owner" ] || die \
    "$HOME belongs to $owner: root would leave files there that this user cannot change" \
    "$HOME 属于 $owner：以 root 运行会在那里留下该用户无法修改的文件" \
    "as $owner, without sudo: sh $0" "请以 $owner 的身份、不用 sudo 运行：sh $0"
}

digest() {
  "$python" -I -S -c 'import hashlib, sys
print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$1"
}

# check_digest FILE HEX
check_digest() {
  got=$(digest "$1")
  [ "$got" = "$2" ] || die "wrong checksum: expected $2, got $got" \
    "校验和不对：应为 $2，实为 $got" \
    'the download is broken or is another version; try again' \
    '下载损坏，或者是另一个版本；请重试'
}

# The checksum of feishuperm.pyz in a SHA256SUMS file.
listed_digest() {
  sed -n 's/^\([0-9a-f]\{64\}\)[ *]*feishuperm\.pyz$/\1/p' "$1"
}

# download URL FILE: shows its progress on a terminal.
download() {
  case $1 in
    https://*) proto='=https' ;;
    http://localhost[:/]* | http://127.0.0.1[:/]* | http://\[::1\][:/]*) proto='=http' ;;
    http://*)
      [ "$allow_http" = yes ] ||
        die "$1 is not encrypted" "$1 没有加密" \
          'use https, or --allow-http if you trust the network' \
          '请用 https；信任这个网络时可加 --allow-http'
      proto='=http,https'
      ;;
    *) die "cannot download $1: not an https address" "无法下载 $1：不是 https 地址" ;;
  esac
  if command -v curl >/dev/null 2>&1; then
    progress=-sS
    [ -t 2 ] && progress=--progress-bar
    curl -fL --proto "$proto" --proto-redir "$proto" "$progress" -o "$2" "$1"
  elif command -v wget >/dev/null 2>&1; then
    if [ -t 2 ]; then wget -O "$2" "$1"; else wget -q -O "$2" "$1"; fi
  else
    die 'neither curl nor wget found' '没有找到 curl，也没有 wget' \
      'install one, or download the file and use --from' \
      '请安装其中一个，或自己下载文件后用 --from'
  fi
}

fetch() {
  say "downloading $1" "正在下载 $1"
  download "$1" "$scratch/feishuperm.pyz" || die "cannot download $1" "无法下载 $1"
  if [ -z "$sha256" ]; then
    download "${1%/*}/SHA256SUMS" "$scratch/SHA256SUMS" 2>/dev/null ||
      die "no checksum known for $1" "不知道 $1 的校验和" \
        'give the right one: --sha256 HEX' '请给出正确的：--sha256 HEX'
    sha256=$(listed_digest "$scratch/SHA256SUMS")
    say 'checksum from the same place: it only guards against a broken download' \
      '校验和来自同一个地方：只能发现下载损坏'
  fi
  file=$scratch/feishuperm.pyz
}

# The build of the clone this script lies in, made again if a source is newer.
build() {
  file=$1/dist/feishuperm.pyz
  if [ ! -f "$file" ] || [ -n "$(find "$1/feishuperm" "$1/build.py" \
    -newer "$file" ! -path '*/__pycache__*' -type f)" ]; then
    say 'building from source (about a minute)' '正在从源码构建（约一分钟）'
    [ ! -t 2 ] || tick &
    ticker=$!
    if ! (cd "$1" && "$python" build.py) >"$scratch/build.log" 2>&1 </dev/null; then
      kill "$ticker" 2>/dev/null || :
      cat "$scratch/build.log" >&2
      die 'the build failed' '构建失败' \
        'a built file needs no build: ./install.sh --from feishuperm.pyz' \
        '构建好的文件不需要再构建：./install.sh --from feishuperm.pyz'
    fi
    kill "$ticker" 2>/dev/null || :
    [ ! -t 2 ] || printf '\r\033[K' >&2
  fi
}

# How many seconds have passed, on one line; ends with this script at the latest.
tick() {
  seconds=0
  while [ -d "$scratch" ]; do
    printf '\r%s s' "$seconds" >&2
    sleep 1
    seconds=$((seconds + 1))
  done
}

# Sets `file` to a verified archive: the named one, that of the address this script was
# made for, the one beside it (a release), or the build of the clone it lies in.
find_file() {
  clone=
  case $0 in
    install.sh) clone=. ;;
    */install.sh) clone=${0%/*} ;;
  esac
  case $from in
    *://*) [ "$from" = "$url" ] || sha256=$given_sha256 && fetch "$from" ;;
    ?*) file=$from sha256=$given_sha256 ;;
    *)
      if [ -n "$url" ]; then
        fetch "$url"
      elif [ -n "$clone" ] && [ -f "$clone/feishuperm.pyz" ]; then
        file=$clone/feishuperm.pyz
      elif [ -n "$clone" ] && [ -f "$clone/build.py" ]; then
        build "$clone"
      else
        die 'nothing to install' '没有可安装的文件' \
          'name the file: --from feishuperm.pyz' '请指定文件：--from feishuperm.pyz'
      fi
      ;;
  esac
  case $file in */*) ;; *) file=./$file ;; esac
  [ -f "$file" ] || die "no such file: $file" "没有这个文件：$file"
  if [ -z "$sha256" ] && [ -f "${file%/*}/SHA256SUMS" ]; then
    sha256=$(listed_digest "${file%/*}/SHA256SUMS")
  fi
  [ -z "$sha256" ] || check_digest "$file" "$sha256"
}

# run COMMAND...: the pipe a script may come through is not for the program to read.
run() {
  if [ -t 0 ]; then "$@"; else "$@" </dev/null; fi
}

uninstall() {
  program=$prefix/bin/feishuperm
  if [ ! -x "$program" ]; then
    say "not installed in $prefix" "$prefix 里没有安装"
    return
  fi
  run "$program" uninstall "$@"
}

main() {
  choose_language
  prefix=${HOME:?HOME is not set}/.local from='' wanted='' action=install allow_http=no
  given_sha256='' left=$#
  while [ "$left" -gt 0 ]; do
    option=$1
    shift
    left=$((left - 1))
    case $option in
      --from | --version | --prefix | --sha256 | --webhook | --secret)
        [ "$left" -gt 0 ] || die "$option needs a value" "$option 需要一个值" \
          'install.sh --help' 'install.sh --help' 2
        value=$1
        shift
        left=$((left - 1))
        ;;
      --*=*)
        value=${option#*=}
        option=${option%%=*}
        case $option in
          --from | --version | --prefix | --sha256 | --webhook | --secret) ;;
          *) option=$option=$value ;;
        esac
        ;;
    esac
    case $option in
      --help | -h)
        usage
        return
        ;;
      --from) from=$value ;;
      --version) wanted=$value ;;
      --prefix) prefix=$value ;;
      --sha256) given_sha256=$value sha256=$value ;;
      --webhook) export FEISHU_WEBHOOK_URL="$value" ;;
      --secret) export FEISHU_WEBHOOK_SECRET="$value" ;;
      --allow-http) allow_http=yes ;;
      --uninstall) action=uninstall ;;
      *) set -- "$@" "$option" ;;
    esac
  done
  case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
  if [ "$action" = uninstall ]; then
    uninstall "$@"
    return
  fi
  find_python
  refuse_another_home
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  trap 'exit 1' HUP INT TERM
  find_file
  if [ -n "$wanted" ]; then
    case $("$python" -IBS "$file" version) in
      "feishuperm $wanted,"*) ;;
      *)
        die "this is not version $wanted${version:+ but $version}" \
          "这不是版本 $wanted${version:+，而是 $version}"
        ;;
    esac
  fi
  trap : INT # the program's own: Ctrl-C may end a question and not the install
  run "$python" -IBS "$file" install --prefix "$prefix" "$@"
}

{ main "$@"; exit; }
