"""Permissions in Chinese: who approved access to a system and until when, under a default approver with exceptions."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="permissions",
    lang="zh",
    entities=(
        "保险库", "工资表", "档案库", "排班表", "计算集群", "注册中心", "公共邮箱", "沙箱", "数据仓库", "通讯录",
        "数据看板", "代码库", "内网门户", "密钥库", "实验平台", "会议日历",
    ),
    ids=(
        "vault", "payroll", "archive", "roster", "cluster", "registry", "mailbox", "sandbox", "warehouse", "directory", "dashboard",
        "repository", "intranet", "keystore", "laboratory", "calendar",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="entitlement", args=("resource", "days"), missing="没有该资源在该期限内的权限记录。"),
    change=ToolSpec(name="regrant", args=("resource",), missing="该资源的权限未曾重新签发。"),
    attrs=(
        Attr(
            "quota", "amount", "导出额度",
            ("每日最多导出{v}行。", "导出额度核定为{v}行。", "持有人导出不得超过{v}行。"),
            other=("我的账号能从{entity}拿走多少数据？", "{entity}里的内容我顶多可以拷几行？"),
            guesses=("申请表上填了{v}行，那一栏不作数。", "有位离职同事记得是{v}行，系统里查无依据。"),
        ),
        Attr(
            "grant", "code", "授权号",
            ("访问凭{v}开通。", "授权号登记为{v}。", "本次授权以{v}签发。"),
            other=("我能使用{entity}，依据记在哪一条？", "进{entity}之前要向窗口出示什么？"),
        ),
        Attr(
            "signatory", "person", "签批人",
            ("在同意书上签字的是{v}。", "签批人是{v}。", "已取得{v}书面同意。"),
            other=("{entity}是谁放我们进去的？", "我们用{entity}，凭的是谁一句话？"),
            none=("至今无人签字同意。", "签批人一栏空着。"),
            guesses=("料想{v}不会反对，但没人去问过。", "有同事说{v}点过头，这不算数。"),
        ),
        Attr(
            "custodian", "person", "管理员",
            ("管理员为{v}。", "日常事务归{v}管。", "平日交{v}照管。"),
            other=("{entity}有事该找谁？", "{entity}卡住了给谁打电话？"),
            none=("管理员岗位空缺。", "眼下没有专人照管。"),
        ),
        Attr(
            "expiry", "date", "到期日",
            ("权限用到{v}为止。", "到期日定在{v}。", "有效至{v}，过后收回。"),
            other=("{entity}我还能用多久？", "哪天起我们就彻底进不去{entity}了？"),
            none=("权限长期有效。", "未设到期日。"),
            guesses=("已申请延长到{v}，还没批下来。", "页边有人写了{v}，签名认不出。"),
        ),
        Attr(
            "lockout", "clock", "锁定时间",
            ("会话到{v}一律断开。", "锁定时间设为{v}。", "过了{v}谁也登录不上。"),
            other=("晚上用{entity}最迟能干到几点？", "{entity}夜里开放到什么钟点？"),
        ),
        Attr(
            "audit", "code", "审计文号",
            ("适用的审计文号为{v}。", "审计那边记作{v}。", "稽核事宜见{v}。"),
            other=("检查组问起{entity}，该报哪个号？", "合规的人给{entity}立了哪份卷？"),
            none=("审计方面尚未立项。", "此事没有审计文号。"),
            guesses=("一封不相干的来信提到{v}，大概弄混了。", "便签上写着{v}，写的人自己也说不清。"),
        ),
    ),
    sources=(
        "安全部", "准入组", "身份组", "数据组", "法务部", "工会", "保密组", "证件组", "运维组", "合规部", "风控部",
        "门卫室",
    ),
    heads=(
        "兹证明{entity}的使用权限为期{qty}天，出具单位{source}。",
        "{entity}权限{qty}天，已由{source}备案。",
        "针对为期{qty}天的申请，{source}就{entity}答复如下。",
    ),
    change_heads=(
        "现由{source}重新签发{entity}的权限。",
        "{entity}权限已换发，经办{source}。",
        "原权限已由{source}收回，{entity}按新条件开通。",
    ),
    work=(
        "我想用{entity}，{qty}天，行不行？查一下权限。",
        "核实我们对{entity}的权限，期限{qty}天。",
        "接下来{qty}天要用到{entity}，先看看我有哪些权限。",
    ),
    changes=(
        "{entity}的权限换发过了，取最新条款。",
        "他们先收回又恢复了{entity}的权限，重新取一份。",
        "请调出换发后的{entity}权限。",
    ),
    brief="{source}核定{entity}",
    change_brief="{entity}重批",
    fillers=(
        "账号口令仅限本人使用，不得转借。",
        "所有操作均留日志，随时可能抽查。",
        "离开座位须锁屏。",
        "外包人员与正式员工适用同一制度。",
        "来访人员须全程陪同。",
        "禁止使用移动存储介质。",
        "发现违规请立即上报。",
        "每次登录都要二次验证。",
        "打印件用完即碎。",
        "安全培训每年复训一次。",
        "授权遵循最小够用原则。",
        "制度全文见员工手册。",
        "争议由领导小组裁定。",
        "远程办公须走公司专线。",
        "个人信息只能用于申报的用途。",
        "长期不用的账户直接注销，不另行通知。",
        "个案例外不构成先例。",
        "违规使用可能受到处分。",
    ),
    user_fact=UserFact(
        "ceiling",
        "amount",
        "下载上限",
        says=("我这边的下载上限是{v}行。", "合同给我定的下载上限为{v}行。", "请遵守下载上限：{v}行。"),
        changes=("我的下载上限已调整为{v}行。", "即日起下载上限按{v}行执行。", "法务换了下载上限，现为{v}行。"),
        asks=("我受多大的下载上限约束？", "眼下我得守哪个下载上限？", "下载上限的最新规定是多少？"),
    ),
    compare=Compare(
        "quota",
        (
            "{entity}的导出额度全用满，会不会超过下载上限，差多少？",
            "对照下载上限看{entity}的导出额度：超没超，差几行？",
        ),
    ),
    rule=Rule(
        noun="默认审批人",
        kind="person",
        says=(
            "按规矩默认审批人是{v}，旁人不行。",
            "我们的默认审批人只认{v}，没有例外。",
            "凡有申请，都要默认审批人{v}点头。",
        ),
        exceptions=(
            "{entity}这一项改派{v}代任默认审批人，撤销前有效。",
            "作为例外，{entity}的默认审批人是{v}。",
            "上面指定{v}担任{entity}的默认审批人。",
        ),
        withdrawals=(
            "{entity}的替补默认审批人撤销。",
            "即刻起{entity}不再单设默认审批人。",
        ),
        reinstatements=(
            "{entity}的替补默认审批人恢复。",
            "即刻起{entity}重新单设默认审批人，人选照旧。",
        ),
        once=(
            "仅此一回，{entity}可让{v}顶替默认审批人。",
            "这次我同意{v}当{entity}的默认审批人，下不为例。",
        ),
        asks=(
            "{entity}要哪位默认审批人点头？",
            "{entity}的默认审批人算谁？",
            "我要用{entity}，得找哪位默认审批人？",
        ),
    ),
    totals=(
        "目前查过的资源，导出额度合起来一共多少行？",
        "把核实过的导出额度全部相加，是多少？",
    ),
    across=(
        "{entity}与{other}相比，哪个导出额度更大，大多少？",
        "论导出额度，是{entity}大还是{other}大，差多少？",
    ),
)  # fmt: skip
