"""Casework in Chinese: a litigation practice's matters, their parties, listings and deadlines."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="casework",
    lang="zh",
    entities=(
        "恒泰案", "远洋案", "明珠案", "蓝湾案", "东岭案", "华阳案", "金桥案", "百川案", "天和案", "新元案", "长河案", "大通案", "北斗案", "万里案",
        "同心案", "南星案",
    ),
    ids=(
        "abernathy", "bexley", "carrow", "dunmore", "ellery", "fairfax", "garrick", "hollis", "inskip", "jessop", "kendrick", "lomax",
        "merrick", "norcott", "ormond", "pryor",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="docket", args=("matter", "entries"), missing="法院系统里查不到该案的这些记录。"),
    change=ToolSpec(name="refile", args=("matter",), missing="该案没有更正过的记录。"),
    attrs=(
        Attr(
            "claimant", "person", "原告",
            says=("本案原告是{v}。", "起诉人为{v}。", "递状子的是{v}。"),
            other=("{entity}是谁把咱们告了？", "{entity}这场官司谁挑的头？"),
        ),
        Attr(
            "counsel", "person", "对方律师",
            says=("对方律师是{v}。", "出庭代理的是{v}。", "委托书上写的是{v}。"),
            other=("{entity}咱们要跟哪位交手？", "{entity}庭上谁替那一边说话？"),
            none=("对方没有请人代理。", "对方自己应诉，尚无委托手续。"),
            guesses=("走廊里传他们想请{v}。", "据说在接触{v}，卷里没有记录。"),
        ),
        Attr(
            "deadline", "date", "举证期限",
            says=("证据须在{v}前交齐。", "举证期限定在{v}。", "过了{v}法院不再收材料。"),
            other=("{entity}哪天以后就来不及应对了？", "{entity}留给我们准备到几号？"),
            none=("法官还没指定举证期限。", "什么时候截止，等庭前会议再定。"),
            guesses=("实习生在日历上标了{v}，通知书还没见到。", "我掰着指头算是{v}，请再核。"),
        ),
        Attr(
            "hearing", "clock", "开庭时间",
            says=("开庭时间为{v}。", "传票上写的是{v}到庭。", "双方{v}到场听审。"),
            other=("{entity}几点敲法槌？", "{entity}那天我最晚何时要坐到席位上？"),
            none=("本案书面审理，不开庭。", "排期已经撤销，另行通知。"),
            guesses=("法警盼着{v}能轮到，得看上午顺不顺。", "原先暂排{v}，没有盖章。"),
        ),
        Attr(
            "courtroom", "room", "法庭",
            says=("在第{v}法庭审理。", "法庭安排在{v}。", "开庭地点：{v}。"),
            other=("{entity}的卷宗推到哪间屋？", "{entity}该敲哪扇门？"),
        ),
        Attr(
            "sum", "amount", "标的额",
            says=("标的额{v}元。", "诉状索赔{v}元。", "诉讼请求共计{v}元。"),
            other=("{entity}输了，客户得掏多少钱？", "{entity}这一仗牵涉多大数目？"),
            guesses=("我方专家口头说过{v}元，报告还没出。", "报纸上传{v}元，没有依据。"),
        ),
        Attr(
            "docket", "code", "案号",
            says=("案号{v}。", "立案后编为{v}。", "卷皮上贴的是{v}。"),
            other=("{entity}往来函件要引用什么编码？", "在终端上查{entity}，敲哪一串？"),
        ),
    ),
    sources=(
        "立案庭", "商事庭", "卷宗科", "执行局", "诉服中心", "审管办", "法援站", "调解室", "收费处", "收转处", "上诉组", "法官助理",
    ),
    heads=(
        "{entity}最近{qty}条记录，{source}发来。",
        "据{source}登记，{entity}现有{qty}条记录。",
        "卷宗存于{source}：{entity}，列出{qty}条。",
    ),
    change_heads=(
        "{entity}的记录由{source}更正。",
        "依裁定，{source}变更了{entity}的登记。",
        "补正通知：{entity}的卷内事项，{source}已改。",
    ),
    work=(
        "调{entity}的卷宗，最近{qty}条。",
        "看看{entity}最后{qty}条记录。",
        "向法院核一下{entity}，往前翻{qty}条。",
    ),
    changes=(
        "按法院裁定重新报送{entity}的材料。",
        "{entity}有补正，去法院调来。",
        "把{entity}修订过的记录取来。",
    ),
    brief="{source}存{entity}",
    change_brief="{entity}更正",
    fillers=(
        "材料要逐页编号。",
        "代理意见写短点。",
        "诉讼费由败诉方承担。",
        "调解不用穿律师袍。",
        "笔录要另行申请。",
        "调解时的让步不作证据。",
        "翻译由我们联系。",
        "证人要出庭。",
        "双方都愿意再谈。",
        "类案报告不用附全文。",
        "没有人提管辖异议。",
        "证据按清单交换。",
        "进门请关手机。",
        "境外文件要公证。",
        "信函双方各送一份。",
        "阅卷要预约。",
        "时效问题留待判决。",
        "中止事由已经消除。",
    ),
    user_fact=UserFact(
        "authority",
        "amount",
        "和解授权",
        says=(
            "当事人给我们的和解授权是{v}元。",
            "每个案子的和解授权以{v}元为限。",
            "我手里的和解授权：{v}元。",
        ),
        changes=(
            "当事人有新指示，和解授权改为{v}元。",
            "客户把和解授权调到了{v}元。",
            "从现在起，和解授权按{v}元执行。",
        ),
        asks=(
            "我们现在的和解授权是多少？",
            "照目前的和解授权，最多能谈到哪个数？",
            "提醒我手上还有多大的和解授权。",
        ),
    ),
    compare=Compare(
        "sum",
        (
            "{entity}的标的额超出和解授权了吗，差多少？",
            "拿{entity}的标的额对照和解授权：超没超，差额多大？",
        ),
    ),
    rule=Rule(
        noun="递件截止",
        kind="clock",
        says=(
            "不管哪个案子，{v}以后一律不递件。",
            "要递的材料，{v}前必须出门。",
            "递件截止每天都是{v}。",
        ),
        exceptions=(
            "{entity}可以递件到{v}，对方已同意。",
            "我把{entity}的递件截止挪到{v}。",
            "在我通知之前，{entity}以{v}为递件截止。",
        ),
        withdrawals=(
            "{entity}单独的递件截止作废。",
            "对方在{entity}上反悔了，照平常的时间递件。",
        ),
        reinstatements=(
            "{entity}单独的递件截止重新适用。",
            "对方在{entity}上又松口了，恢复单独的递件截止。",
        ),
        once=(
            "就这一封，{entity}可以拖到{v}再递。",
            "{entity}这回我同意递到{v}，仅限本次。",
        ),
        asks=(
            "{entity}最晚几点能递件？",
            "{entity}的递件截止是几点？",
            "{entity}的材料几点以后就递不出去了？",
        ),
    ),
    totals=(
        "目前看过的案子，标的额一共多少？",
        "把查过的标的额全部相加，我们的敞口有多大？",
    ),
    across=(
        "{entity}和{other}比标的额，哪个大，大多少？",
        "{entity}与{other}，哪边索要得更多，多多少？",
    ),
)  # fmt: skip
