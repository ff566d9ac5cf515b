"""Catering in Chinese: portions, diets, allergies and substitutions by event."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="catering",
    lang="zh",
    entities=(
        "婚宴", "晚会", "早午餐会", "满月酒", "帆船赛", "首映礼", "黑客松", "野餐会", "校友会", "画展", "周年庆", "谢师宴",
        "追思会", "商务午宴", "学术年会", "化装舞会",
    ),
    ids=(
        "wedding", "gala", "brunch", "christening", "regatta", "premiere", "hackathon", "picnic", "reunion", "vernissage", "jubilee",
        "graduation", "funeral", "luncheon", "congress", "masquerade",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="menu", args=("event", "tables"), missing="没有按这个桌数给该活动排过菜单。"),
    change=ToolSpec(name="substitute", args=("event",), missing="该活动没有换过菜。"),
    attrs=(
        Attr(
            "portions", "amount", "总份数",
            ("一共装盘{v}份。", "总份数{v}份，含冷盘小点。", "后厨照{v}份备料下锅。"),
            other=("{entity}要做多少人的饭菜？", "{entity}全场要端出去几盘？"),
            guesses=("主家隔着院子喊了一嗓子，好像是{v}份。", "去年夏天做的是{v}份，这回兴许差不多。"),
        ),
        Attr(
            "vegan", "part", "素食人数",
            ("有{v}份要做成全素。", "素食人数{v}位。", "另有{v}位来宾忌荤腥。"),
            other=("{entity}有多少人肉蛋奶都不碰？", "{entity}得单做几盘不沾动物油的？"),
            none=("这一单没人要全素。", "素菜不用准备，无人预订。"),
            guesses=("策划随口一说，吃素的也就{v}位吧。", "服务员估摸素菜得有{v}份，没人核过。"),
        ),
        Attr(
            "allergy", "code", "过敏卡",
            ("过敏卡{v}已贴在出餐口。", "客人忌口都写在{v}上。", "传菜前核对过敏卡{v}。"),
            other=("{entity}谁碰不得坚果，看哪张表？", "{entity}有人吃错东西会出事，名单编号多少？"),
            none=("没有收到过敏卡。", "来宾当中无人申报过敏。"),
            guesses=("听说有张过敏卡{v}，谁也没见着。", "旧的过敏卡{v}还压在台面上，别理它。"),
        ),
        Attr(
            "swap", "weight", "替代料",
            ("小麦粉改用米粉，共{v}。", "替代料{v}，已过秤。", "黄油换成人造黄油{v}。"),
            other=("{entity}顶上去的那批食材有多重？", "{entity}的备选货要装车多少公斤？"),
        ),
        Attr(
            "cook", "person", "主厨",
            ("当天由{v}掌勺。", "主厨定了{v}。", "灶台归{v}管。"),
            other=("{entity}后厨谁说了算？", "{entity}那天谁带班炒菜？"),
            guesses=("运气好的话，{v}能腾出空来炒菜。", "排班表上原先写着{v}，后来擦掉了。"),
        ),
        Attr(
            "serving", "clock", "开席时间",
            ("第一道菜{v}出锅上桌。", "开席时间{v}，准点。", "铃响走菜，定在{v}。"),
            other=("{entity}几点动筷子？", "{entity}的汤最晚什么钟点得滚烫？"),
        ),
        Attr(
            "tasting", "date", "试菜日",
            ("试菜安排在{v}。", "样品菜{v}端给客户尝。", "试菜日敲定：{v}。"),
            other=("{entity}的甲方哪天来品味道？", "{entity}什么时候能先让人吃上几口，给点意见？"),
        ),
    ),
    sources=(
        "和记", "金勺", "铜釜居", "三元楼", "南园", "四海厨房", "香满楼", "新月西餐", "同庆楼", "明记", "大江小馆", "福来",
    ),
    heads=(
        "{entity}的菜单由{source}拟定，共{qty}桌。",
        "以下是{source}给{entity}排的菜，席开{qty}桌。",
        "后厨派单：{entity}，{qty}桌，{source}掌灶。",
    ),
    change_heads=(
        "后厨通知：{source}调整了{entity}的菜。",
        "换菜记录：{entity}，{source}登记。",
        "{entity}有几样菜换了，{source}刚写上小黑板。",
    ),
    work=(
        "厨师长要看{entity}的菜单，{qty}桌的量。",
        "把{entity}的菜单调出来，席面{qty}桌。",
        "{entity}摆{qty}桌，上哪些菜，查一下。",
    ),
    changes=(
        "{entity}有食材断货，看看换成了什么。",
        "厨师长动了{entity}的菜，把替换单找出来。",
        "查一下{entity}临时调换了哪几道。",
    ),
    brief="{source}办{entity}",
    change_brief="{entity}改单",
    fillers=(
        "花卷早上现蒸。",
        "冷盘先放冷藏车里。",
        "冰块撑不了多久。",
        "酒杯是租来的。",
        "油锅边别离人。",
        "葱花出锅前再切。",
        "桌布一律用白色。",
        "剩菜送救助站。",
        "蛋糕要两人抬。",
        "帐篷里不许用明火。",
        "餐巾头天叠好。",
        "洗碗机单独接电。",
        "小朋友单开一桌。",
        "卤味放凉再切。",
        "汤用保温桶运。",
        "电线用胶带固定。",
        "乐队最后吃。",
        "倒酒从右手边来。",
    ),
    user_fact=UserFact(
        "capacity",
        "amount",
        "后厨产能",
        says=(
            "先交个底，后厨产能是{v}份。",
            "咱们再怎么赶，后厨产能也就{v}份。",
            "接单的时候记着，后厨产能{v}份封顶。",
        ),
        changes=(
            "烤箱那边有变动，后厨产能现在是{v}份。",
            "往后按{v}份来算后厨产能。",
            "后厨产能调到{v}份了。",
        ),
        asks=(
            "咱们眼下的后厨产能是多少？",
            "问厨师长一句，后厨产能到底有多大？",
            "排单的话，后厨产能该按多少算？",
        ),
    ),
    compare=Compare(
        "portions",
        (
            "{entity}的总份数超没超后厨产能，两边相差多少？",
            "拿{entity}的总份数跟后厨产能比：超了没有，差多少份？",
        ),
    ),
    rule=Rule(
        noun="试味人",
        kind="person",
        says=(
            "每锅菜出锅之前，先请{v}试味。",
            "店里的规矩，试味人是{v}。",
            "不管哪场活动，试味人都用{v}。",
        ),
        exceptions=(
            "{entity}例外，试味人换成{v}。",
            "给{entity}另派试味人{v}，等我通知再撤。",
            "{entity}不照老规矩，改由{v}试味。",
        ),
        withdrawals=(
            "{entity}另派的试味人撤了吧。",
            "{entity}不搞特殊了，还用平常的试味人。",
        ),
        reinstatements=(
            "{entity}另派的那位试味人重新上岗。",
            "{entity}又得用回它自己的试味人。",
        ),
        once=(
            "就这一锅，{entity}可以让{v}试味。",
            "行，{entity}这次让{v}当试味人，下不为例。",
        ),
        asks=(
            "{entity}要出锅了，叫哪位来试味？",
            "{entity}的试味人是谁？",
            "{entity}头一勺该请谁先试味？",
        ),
    ),
    totals=(
        "目前看过的活动，总份数加起来是多少？",
        "把查到的总份数全部相加，得多少份？",
    ),
    across=(
        "{entity}和{other}，哪场的总份数更大，大多少？",
        "厨师长拿{entity}跟{other}比：总份数哪边多，多几份？",
    ),
)  # fmt: skip
