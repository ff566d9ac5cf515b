"""Travel in Chinese: trips booked and rebooked through agencies, with fares, hotels and a daily allowance."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="travel",
    lang="zh",
    entities=(
        "奥斯陆", "里斯本", "布拉格", "里加", "都灵", "波尔图", "格但斯克", "卑尔根", "马尔默", "巴塞尔", "根特", "维尔纽斯",
        "格拉茨", "里昂", "斯普利特", "科克",
    ),
    ids=(
        "oslo", "lisbon", "prague", "riga", "turin", "porto", "gdansk", "bergen", "malmo", "basel", "ghent", "vilnius", "graz", "lyon",
        "split", "cork",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="trip", args=("city",), missing="没有去该城市的行程。"),
    change=ToolSpec(name="rebook", args=("city",), missing="没有可改签的该城市行程。"),
    attrs=(
        Attr(
            "fare", "amount", "票价",
            ("票价是{v}元。", "双程一共付{v}元。", "来回票价合{v}元。"),
            other=("去{entity}的票多少钱？", "跑一趟{entity}，路上要花多少？"),
            guesses=("昨晚网上见过{v}元的，这会儿没了。", "朋友去的时候大约{v}元，那是淡季。"),
        ),
        Attr(
            "booking", "code", "预订号",
            ("预订号为{v}。", "订单挂在{v}下面。", "已经订妥，凭{v}取票。"),
            other=("去{entity}要在柜台出示什么？", "我拿到的{entity}确认代码是哪个？"),
        ),
        Attr(
            "flight", "code", "航班号",
            ("航班号是{v}。", "你乘{v}飞过去。", "执飞的班次是{v}。"),
            other=("哪趟飞机带我去{entity}？", "去{entity}，在机场大屏上该找什么？"),
            none=("这趟不飞，坐火车去。", "走陆路，乘大巴前往。"),
            guesses=("可能改成{v}，航空公司还没定。", "旧时刻表上是{v}，早已停飞。"),
        ),
        Attr(
            "hotel", "hotel", "住处",
            ("晚上住{v}。", "房间留在{v}。", "住处定在{v}。"),
            other=("在{entity}我睡哪儿？", "{entity}那边把我们安顿在什么地方？"),
            guesses=("大家都夸{v}，但那里没订过房。", "起先问的是{v}，只排上候补。"),
        ),
        Attr(
            "checkin", "clock", "入住时间",
            ("从{v}起可办入住。", "客房{v}收拾好。", "入住时间是{v}。"),
            other=("到{entity}最早几点能放行李？", "在{entity}几点拿得到房卡？"),
            guesses=("运气好的话{v}也许就让进，别指望。", "有条点评提到{v}，是前年写的。"),
        ),
        Attr(
            "guide", "person", "导游",
            ("导游是{v}。", "当地有{v}接你。", "给你请了{v}当导游。"),
            other=("在{entity}谁带我们逛？", "到了{entity}我该找谁碰头？"),
            none=("没有请导游。", "到了自己逛。"),
        ),
        Attr(
            "departure", "date", "出发日",
            ("你{v}动身。", "行程从{v}开始。", "出发日定在{v}。"),
            other=("我什么时候去{entity}？", "{entity}之行打哪天算起？"),
        ),
    ),
    sources=(
        "大通旅行", "东方票务", "天地出行", "远方会展", "中天商旅", "北方旅行社", "天天差旅", "海天假期",
    ),
    heads=("查到{source}的{entity}行程。", "{entity}之行由{source}安排。", "行程单来自{source}：目的地{entity}。"),
    change_heads=(
        "经{source}改签，{entity}行程如下。",
        "{entity}行程有变更，经手的是{source}。",
        "改签单来自{source}：目的地{entity}。",
    ),
    work=("查一下去{entity}的行程。", "找出{entity}那趟行程。", "请看看{entity}的行程。"),
    changes=("把去{entity}的行程改签一下。", "请改签{entity}那趟。", "按说好的给{entity}行程改签。"),
    brief="{source}安排{entity}",
    change_brief="{entity}改签",
    fillers=(
        "房费含早餐。",
        "请带好有效护照。",
        "手提行李限重八公斤。",
        "座位在登机口分配。",
        "接驳车半小时一班。",
        "晚到请给前台打电话。",
        "客房内禁止吸烟。",
        "出发前一天仍可更改。",
        "城市税到当地现付。",
        "休息室在二楼。",
        "两岁以下儿童免票。",
        "出租车在车站门口排队。",
        "那个季节气候温和。",
        "博物馆每逢周一闭馆。",
        "建议买一份旅行保险。",
        "收据用邮件发送。",
    ),
    user_fact=UserFact(
        "allowance",
        "amount",
        "每日补贴",
        says=("每日补贴是{v}元。", "公司给的每日补贴为{v}元。", "花销别超出每日补贴{v}元。"),
        changes=("每日补贴现改为{v}元。", "新的每日补贴：{v}元。", "财务把每日补贴调成{v}元。"),
        asks=("每日补贴现在是多少？", "目前执行哪个每日补贴标准？", "现行的每日补贴，再提醒我一下。"),
    ),
    rule=Rule(
        noun="最早出门时间",
        kind="clock",
        says=(
            "别让我在{v}之前出门。",
            "出差的事一律不排在{v}之前。",
            "不管去哪儿，我的最早出门时间是{v}。",
        ),
        exceptions=(
            "在{entity}另算，{v}以后就能给我排事。",
            "{entity}的最早出门时间改成{v}。",
            "在我叫停之前，{entity}那边{v}我也认了。",
        ),
        withdrawals=(
            "{entity}的特殊出门时间作废。",
            "{entity}又按平常的出门时间来。",
        ),
        reinstatements=(
            "{entity}的特殊出门时间还是有效。",
            "重新启用{entity}的特殊出门时间。",
        ),
        once=(
            "就这一天，去{entity}可以{v}出门。",
            "{entity}这次我答应{v}出门，下不为例。",
        ),
        asks=(
            "在{entity}我最早几点可以出门？",
            "{entity}那边我能接受的最早出门时间是几点？",
            "{entity}那边几点以后可以给我排事？",
        ),
    ),
    totals=(
        "目前所有票价加起来是多少？",
        "把我这几趟的票价加总一下。",
    ),
    across=(
        "去{entity}和去{other}，哪个票价更高，高多少？",
        "把{entity}和{other}的票价比一比：哪个高，高多少？",
    ),
)  # fmt: skip
