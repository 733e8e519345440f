"""Commands that are known by their words alone: what they do, as a table.

A line names a program and words that follow each other among its first arguments;
`*` stands for the rest of a word, `|` parts words of which one is meant, and `!` stands
before words that do not follow.  Options are not looked at, `--dry-run` and `--help`
apart: what only says what it would do does nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

LOOKED_AT = 10  # words of a command
HARMLESS = re.compile(
    r"--(?:dry-?run(?:=.*)?|help|simulate)|-whatif|-help|can-i|\S*ToMavenLocal",
    re.IGNORECASE,
)
_ASKS = re.compile(r"help|search|view|info|show|explain|ls|list|describe|diff|preview")
# Programs for disks that only look with these.
_LOOKS = {"-l", "--list", "-I", "-i", "print", "-N"}

DEEDS = {
    "danger.publish": """
        npm|pnpm|yarn|bun|lerna|rush|expo publish
        npm|pnpm|yarn unpublish|deprecate
        npm|pnpm|yarn dist-tag|tag|owner|access add|rm|remove|set|grant|revoke|public
        cargo publish|yank
        cargo release --execute|-x
        cargo|gem owner --add|--remove|-a|-r
        gem push|yank
        twine|eas|snapcraft upload|submit|release
        poetry|uv|flit|hatch|pdm|maturin|changeset|ovsx|vsce|jsr|pub publish
        python setup.py upload
        mvn|mvnw deploy*|release:perform
        gradle|gradlew publish*|*:publish*|uploadArchives|closeAndRelease*
        aws s3|s3api cp|sync|put-object --acl public-read*
        docker|podman|nerdctl|buildah|skopeo|crane|helm|oras push|copy
        docker build|bake --push
        gh release|gist create|upload|edit
        gh repo create|edit|rename|archive
        glab release create
        dotnet nuget push
        nuget push
        pod trunk push
        dart|flutter pub publish
        goreleaser|nx release
        semantic-release|np|release-it|standard-version
        gh-pages|surge
        vercel|netlify|firebase|wrangler|fly|flyctl|railway deploy|publish|up
        vercel|now --prod|--production|promote
        electron-builder|electron-forge publish|--publish|-p
        eas --auto-submit*|update|submit
        aws lambda|ecs|amplify update-function-code|update-service|publish-*|start-job
        aws cloudformation|deploy|codepipeline deploy|create-deployment|start-pipeline-*
        serverless|sls|cdk|sam|eb deploy|publish|up
        gcloud app|run|functions deploy
        az webapp|functionapp up|deploy*
        heroku container:release|container:push
        clasp push|deploy
        fastlane release|deliver|beta|pilot|supply|upload*
        sbt publish*|release
        mix hex.publish
        anaconda|conda|charmcraft|conan upload
        altool --upload-app|--upload-package
        cap|kamal|mina|shipit deploy|setup|redeploy
        supabase db|functions push|deploy
        amplify publish|push
        hexo|mkdocs|docusaurus|quarto deploy|gh-deploy|publish
        luarocks|cabal|opam|stack upload|publish
        web-ext sign
        shopify|wp app|theme|plugin deploy|push|publish
        modal|fly|render|deployctl|zeabur deploy
    """,
    "danger.root": """
        nsenter|capsh
        machinectl shell
        launchctl asuser
    """,
    "danger.force": """
        gh pr merge --admin
        gh|glab api DELETE|--method=DELETE|-XDELETE
    """,
    "danger.downloaded": """
        helm install|upgrade http*
    """,
    "danger.wipe": """
        svn revert
        hg update|up|checkout|co --clean|-C
        hg strip|purge|revert
        p4 revert|obliterate
        journalctl --vacuum-*
        auditctl -D
    """,
    "danger.data": """
        docker|podman|docker-compose rm -*v|--volumes
        knex migrate:rollback|migrate:down
        flask db downgrade
        goose|migrate|dbmate|sql-migrate down|drop|reset
        diesel|sqlx|mikro-orm|ent database|migration|schema drop|reset|revert
        liquibase drop-all|dropAll|rollback*
        flyway clean
        mix ecto.drop|ecto.reset|ecto.rollback
        dotnet ef database drop
        drizzle-kit drop
        mongorestore --drop
        pg_restore -c|--clean
        wp|drush db|site reset|drop|empty|sql-drop
        hdfs|hadoop dfs|fs -rm|-rmr|-rmdir
        kafka-topics*|kafka-consumer-groups* --delete|--delete-offsets
        firebase firestore:delete|database:remove|hosting:disable
        tccutil reset
        ostree|snapper|timeshift delete|--delete
        multipass purge
        simctl erase|delete
        wrangler d1|kv|r2 delete
        aws s3|s3api rm --recursive
        aws s3 rb
        aws s3 sync --delete
        aws * delete-*|purge-*|remove-*|deregister-*|batch-delete-*
        aws dynamodb batch-write-item
        gsutil|mc rm|rb
        gcloud sql|storage|spanner|bigtable|firestore|datastore * delete|rm
        gcloud pubsub|secrets|kms * delete|rm
        gcloud storage rm
        bq rm
        az storage|sql|cosmosdb|keyvault|postgres|mysql * delete|purge|remove*
        az * delete|delete-batch
        rclone delete|purge|deletefile|rmdirs|sync
        s3cmd del|rb|sync
        dropdb|dropuser|pg_dropcluster|kafka-delete-records*|lvremove|vgremove|pvremove
        mysqladmin|mariadb-admin drop|shutdown|flush-*
        rails|rake|bin/rails db:drop|db:reset|db:purge|db:schema:load
        artisan|php migrate:rollback|migrate:refresh|migrate:fresh|migrate:reset|db:wipe
        manage.py flush|reset_db|sqlflush
        python manage.py flush|reset_db
        prisma migrate reset
        prisma db push --force-reset|--accept-data-loss
        supabase db reset
        alembic downgrade
        sequelize|sequelize-cli db:drop|db:migrate:undo:all
        typeorm schema:drop|migration:revert
        heroku pg:reset|pg:wipe|apps:destroy|addons:destroy
        docker|podman volume rm|remove|prune
        docker|podman system prune
        docker|podman|docker-compose down -v|--volumes
        zfs|zpool|btrfs destroy|rollback|delete
        restic|borg|duplicity forget|prune|delete|remove*
        redis-cli flushall|flushdb|shutdown
        etcdctl del
        consul kv delete
        vault kv|secrets|token|delete delete|destroy|disable|revoke
        vault delete
        nats stream rm|purge
        rabbitmqctl reset|delete_*|purge_queue|force_reset
        influx|hub|tmutil|defaults delete
        tmutil delete*
        elasticdump --delete
        svn delete|rm
        gh repo|release|secret|variable|gist|cache|run|label delete|remove|set
        glab repo|release delete
        ipfs repo gc
    """,
    "danger.money": """
        stripe|square|paddle|paypal|mollie refund*|payout*|transfer* create|send
        stripe charges|topups|payment_links|credit_notes create|capture|void*
        stripe payment_intents|invoices|subscriptions|quotes confirm|capture|pay|cancel
        stripe post|delete /v1/*
        aws * purchase-*|create-savings-plan|register-domain|renew-domain
        bitcoin-cli|litecoin-cli|lncli|lightning-cli send*|pay*|withdraw
        cast|solana|spl-token|near send|transfer|burn|mint
    """,
    "danger.packages": """
        add-apt-repository|apt-add-repository
        dnf|yum-config-manager config-manager|--add-repo --add-repo*|addrepo|*://*
        zypper|flatpak ar|addrepo|remote-add
    """,
    "danger.tunnel": """
        ngrok http|tcp|tls|start|tunnel
        cloudflared tunnel --url*|run|--name|--hello-world
        bore local
        lt|localtunnel --port*|-p*
        frpc|rathole|tmate|pagekite|pagekite.py
        chisel client R:*
        chisel server --reverse
        tailscale funnel !status|reset|off
        code|code-insiders|cursor tunnel !status|user|unregister|kill|help
        devtunnel|upterm host
        zrok share
        inlets|inlets-pro client
        gh codespace visibility *:public
        gost rtcp*|rudp*
        jprq|holesail|expose|telebit http|tcp|share|live
    """,
    "danger.machine": """
        podman|nerdctl rmi -*a*|--all
        crictl rmi --prune|--all|-a
        docker|podman|nerdctl image prune -*a*|--all
        podman system reset
        pg_ctl|pg_ctlcluster|supervisorctl|rabbitmqctl stop*|shutdown|kill
        mongod --shutdown
        brew services stop|kill
        pm2 delete|del|stop all
        pm2 kill
        etcdctl member remove
        fuser -*k* 5432/tcp|3306/tcp|6379/tcp|27017/tcp|9200/tcp|5672/tcp|22/tcp
        fuser -*k* tcp|udp 5432|3306|6379|27017|9200|5672|22
        netlify api delete*
        wrangler|vercel|now|netlify|railway|supabase|neonctl delete|remove|rm|down
        pscale|turso|atlas|mongocli|sam|eb|amplify|cf delete|destroy|terminate|delete-*
        copilot|kamal|confluent|auth0 delete|remove
        netlify|firebase|dokku|heroku *:delete|*:destroy|*:disable
        surge teardown
        aws ecs update-service --desired-count=0
        aws ecs update-service --desired-count 0
        az webapp|functionapp|vm|aks|postgres|mysql stop|deallocate
        shutdown|reboot|halt|poweroff|telinit
        init 0|6
        systemctl stop|kill
        service|rc-service * stop
        ifconfig * down
        ip link set * down
        nmcli networking|radio|con|connection|device off|down|delete|disconnect
        ip route|addr|link del|delete|flush
        systemctl|loginctl poweroff|reboot|halt|kexec|suspend|hibernate|rescue|emergency
        terraform|tofu|terragrunt|pulumi|cdk|cdktf|vagrant destroy|remove|down
        serverless|sls remove
        terraform|tofu|terragrunt apply -auto-approve|--auto-approve|-destroy
        terraform|tofu|terragrunt state|workspace rm|delete
        terraform|tofu|terragrunt run-all apply|destroy
        pulumi up --yes|-y
        kubectl|oc|k3s|k|kubectx delete|drain|cordon|replace
        kubectl|oc|k scale --replicas=0
        helm|helmfile uninstall|delete|del|un|destroy
        aws * terminate-*|stop-*|reboot-*
        gcloud * delete|stop|reset
        az vm|group|aks|container|acr delete|deallocate
        doctl|linode-cli|hcloud|scw|vultr-cli|ibmcloud|oci * delete|destroy|rm|terminate
        flyctl|fly apps|machine|volumes destroy
        heroku ps:stop
        virsh|prlctl|multipass|lxc|incus destroy|undefine|delete|purge
        VBoxManage unregistervm
        eksctl|kops|kind|minikube|k3d delete
        argocd app delete
        nomad|docker job|swarm|stack|node|service stop|leave|rm
        ipmitool power|chassis
        launchctl unload|bootout|disable|remove
        iptables|ip6tables|nft -F|-f|flush|-X|-x|--flush|-P|-D
        ufw disable|reset
        pfctl -d
        setenforce 0
        swapoff -a
        mount *remount*
        csrutil|spctl disable|--master-disable
    """,
    "danger.ci": """
        gh workflow run|disable|enable
        gh variable set|delete
        glab ci|variable run|set|delete|trigger
    """,
    "danger.startup": """
        systemctl enable|disable|mask|unmask|link|edit|set-default
        update-rc.d|chkconfig|chsh|modprobe|insmod|rmmod|kextload|dkms
        launchctl load|bootstrap|enable|submit
        schtasks /create
        sysctl -w
        pm2 startup
        loginctl enable-linger
        systemd-run --on-*
        systemctl|launchctl set-environment|setenv
    """,
    "danger.permissions": """
        aws iam create-*|attach-*|put-*|update-*|add-*
        aws s3api put-bucket-policy|put-bucket-acl|put-public-access-block
        aws ec2 authorize-security-group-*
        gcloud * add-iam-policy-binding|set-iam-policy
        az role assignment create
        az storage * set-permission
        gsutil iam|acl|defacl ch|set
        kubectl create clusterrolebinding|rolebinding
        useradd|usermod|userdel|groupadd|groupmod|passwd|chpasswd|visudo|adduser|deluser
        dscl|sysadminctl|dseditgroup|icacls|takeown
        claude config set
        claude mcp add*|remove
        gcloud iam * create|delete|add-*
        claude plugin install
        feishuperm|feishuperm.pyz passes add
        feishuperm|feishuperm.pyz uninstall|stop|trust
        pkill|killall *feishuperm*
        systemctl stop|kill feishuperm*
        setfacl|setcap|gpasswd|groupdel|newusers|chage|vipw
        claude --dangerously-skip-permissions
        claude --permission-mode bypassPermissions
        codex --dangerously-bypass-approvals-and-sandbox|--yolo
        gemini --yolo|-y
        xattr -d|-dr|-rd|-c|-cr|-rc
        gh api PUT|--method=PUT|-XPUT
        npm|pnpm|yarn config set ignore-scripts|script-shell
        xhost +
        gh auth token|refresh|logout
    """,
    "danger.keys": """
        gpg --delete-*|--import
        aws|oci kms schedule-*|disable-key*
        gcloud kms destroy|disable
        az keyvault key|secret|certificate delete|purge
        docker|podman|nerdctl|helm|oras login
        kubectl|oc config set-credentials|set-cluster|delete-*|unset
        kubectl|oc create secret
        vault write
        vault kv put
        op item create|edit|delete
        bw|pass|gopass create|edit|delete|rm|insert|generate
        npm|yarn|pnpm config set *_auth*|*:_authToken*
        ssh-add -D|-d
        certbot|acme.sh delete|revoke|--revoke
        update-ca-certificates|update-ca-trust|ssh-copy-id
        security delete-*|add-*|import
        keytool -delete
        gh ssh-key|gpg-key|deploy-key|secret add|set|delete
        gh auth login
        aws configure set
        npm login|adduser
        npm token create|revoke|delete
    """,
    "danger.device": """
        mkfs*|mke2fs|mkswap|wipefs|fdisk|sfdisk|gdisk|sgdisk|parted|blkdiscard|hdparm|newfs*
        cryptsetup luksFormat|erase|luksErase|reencrypt
        diskutil erase*|partitionDisk|zeroDisk|secureErase
        diskutil apfs delete*|erase*
        format
        mdadm --zero-superblock
        nvme format|sanitize
        badblocks -w
    """,
    "fact.container": """
        docker|podman|docker-compose rm|rmi|kill|stop|down
        docker|podman container|image|builder|network rm|prune
    """,
    "fact.remote": """
        gh pr|issue create|merge|close|comment|edit|review|ready|reopen|delete
        gh api
        glab mr|issue create|merge|close|note
        kubectl|oc apply|create|patch|edit|scale|rollout|exec|cp|set|label|annotate
        helm|helmfile install|upgrade|apply|sync
        terraform|tofu|terragrunt apply|import
        pulumi up
        ansible-playbook *
        aws|gcloud|az|doctl *
        systemctl start|stop|restart|reload|kill
        launchctl kickstart|stop|start
        vercel|netlify|heroku *
    """,
}


def _word(pattern: str) -> str:
    parts = (re.escape(part).replace(r"\*", r"[^ ]*") for part in pattern.split("|"))
    return f"(?:{'|'.join(parts)})"


def _compile() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Program -> the deeds it is known for, in the order of the table."""
    rows: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for key, lines in DEEDS.items():
        for line in lines.split("\n"):
            if not line.strip():
                continue
            names, *words = line.split()
            # Between the words of a line others may stand, as values of options.
            last = words.pop()[1:] if words and words[-1][0] == "!" else ""
            inner = r"(?: [^ ]+){0,4}? ".join(map(_word, words))
            inner += rf"(?! {_word(last)}(?: |$))" if last else ""
            pattern = re.compile(rf"(?:^|.* ){inner}(?: |$)" if words else "")
            for name in names.split("|"):
                rows.setdefault(name.lower(), []).append((key, pattern))
    return rows


_ROWS = _compile()
_STARS = sorted(name for name in _ROWS if name.endswith("*"))


def names() -> list[str]:
    return list(_ROWS)


def is_harmless(args: Sequence[str]) -> bool:
    """Whether a command only says what it would do."""
    alone = len(args) == 1 and args[0] in ("--version", "version", "-V")
    asks = alone or (bool(args) and _ASKS.fullmatch(args[0]) is not None)
    return asks or any(map(HARMLESS.fullmatch, args))


def deeds(name: str, args: Sequence[str]) -> list[str]:
    """The keys of what a command does, if it is one of the table."""
    rows = _rows(name)
    if not rows or is_harmless(args):
        return []
    if rows[0][0] == "danger.device" and _LOOKS & set(args):
        return []
    text = _text(args)
    keys = dict.fromkeys(key for key, pattern in rows if pattern.match(text))
    return [key for key in keys if key.startswith("danger.")] or list(keys)


def _rows(name: str) -> list[tuple[str, re.Pattern[str]]]:
    """What a program is known for, by its name or by how that begins."""
    stars = (star for star in _STARS if name.startswith(star[:-1]))
    return _ROWS.get(name) or _ROWS.get(next(stars, ""), [])


def _text(args: Sequence[str]) -> str:
    """The words that are looked at; behind `--` they are another program's."""
    own = itertools.takewhile("--".__ne__, args)
    return " ".join(map(_shown, itertools.islice(own, LOOKED_AT)))


def _shown(arg: str) -> str:
    if 0 < len(arg) < 60 and " " not in arg:
        return arg
    option = re.match(r"--[\w-]{1,40}=", arg)
    return option[0] if option else "_"
