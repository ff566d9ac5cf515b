"""Texts of the suites on layered context: a shop's support desk, an order number given early, sales figures, a changed address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eval.suites.base import Lang

ORDER = "SO-2026-0815-0042"

# ---- the support desk -----------------------------------------------------------------------------------------------------------

POLICY: Mapping[Lang, Sequence[str]] = {
    "en": (
        "Goods may be sent back within {n} days of their delivery as long as they are unused and in their first packaging.",
        "The cost of sending goods back is borne by the buyer, save where the shop delivered something wrong or broken.",
        "Refunds are paid to the account that the order was paid from, as a rule within {n} working days of the goods' arrival.",
        "Goods made to measure, opened software and food are excluded, unless they are faulty in themselves.",
        "Whoever sends several parcels back is to note on each of them how many there are in all.",
        "Large goods are fetched by a carrier, who calls {n} hours before; somebody has to be at home.",
        "An exchange is handled like a return and a new order; the price of the day of the first order holds.",
        "Vouchers are given back as vouchers, and parts paid by voucher are never paid out.",
        "Damage in transit is to be reported with pictures within {n} days, and the packaging is to be kept until it was seen.",
        "If a parcel is lost the shop looks for it with the carrier for up to {n} working days and then sends the goods again.",
    ),
    "zh": (
        "商品自签收之日起{n}天内，在未使用且原包装完好的情况下可以申请退货。",
        "退货产生的运费由买家承担，但商家发错货或商品有破损的情形除外。",
        "退款按原支付方式退回，一般在商家收到退货后{n}个工作日内到账。",
        "定制类商品、已经拆封的软件以及食品不在退货范围之内，本身有瑕疵的除外。",
        "一次退回多个包裹的，请在每个包裹上面注明本次一共有几件。",
        "大件商品由承运人上门取件，取件前{n}小时电话联系，届时家中须有人在。",
        "换货按照退货加新订单的方式办理，价格以首次下单当日的价格为准。",
        "使用优惠券支付的部分只退回优惠券，任何情况下都不折算成现金。",
        "运输途中造成的损坏须在{n}天之内附照片反馈，查验之前请保留好全部包装。",
        "包裹遗失的，商家与承运人最多查找{n}个工作日，之后重新安排发货。",
    ),
}
POLICY_CHARS = 8000


def policy(lang: Lang) -> str:
    """A return policy of exactly 8,000 characters, clause by clause."""
    clauses, text = POLICY[lang], ""
    number = 0
    while len(text) < POLICY_CHARS:
        number += 1
        text += f"{number}. " + clauses[number % len(clauses)].format(n=3 + number % 27) + "\n"
    return text[: POLICY_CHARS - 1] + "\n"


SUPPORT: Mapping[Lang, Mapping[str, str]] = {
    "en": {
        "hello": "Good morning, I bought a standing lamp from you.", "hello_a": "Good morning! How can I help with the lamp?",
        "order": f"My order number is {ORDER}.", "order_a": "Thank you, I have noted your order number.",
        "returns": "What is your return policy?", "returns_a": "You can send unused goods back in their first packaging.",
        "shipping": "And who pays for sending it back?", "shipping_a": "You do, unless we delivered something wrong or broken.",
        "refund": "How long does the refund take?", "refund_a": "It goes to the account you paid from, within some working days.",
        "large": "The lamp is large. Is it fetched?", "large_a": "Yes, a carrier fetches large goods and calls before.",
        "ask": "Where is my order? Please look it up for me: which order number do you have?",
        "never": "Which colour of lamp did I tell you I had ordered?",
        "right": f"I have your order {ORDER}; I am looking it up.", "again": "Could you please tell me your order number?",
        "unknown": "That is unknown to me.",
        "talk": "All right, thank you.|The lamp is a present for my aunt.|She lives on the third floor.|The stairs are narrow there.|It is her birthday soon.|I see.",
        "talk_a": "You are welcome.|What a kind present.|Noted, the third floor.|The carrier will manage.|Many happy returns to her.|Anything else?",
    },
    "zh": {
        "hello": "早上好，我在你们这里买了一盏落地灯。", "hello_a": "早上好！请问落地灯有什么需要帮忙的？",
        "order": f"我的订单号是 {ORDER}。", "order_a": "谢谢，订单号已经记下。",
        "returns": "你们的退货政策是怎样的？", "returns_a": "未使用且原包装完好的商品可以退货。",
        "shipping": "那退货的运费谁出？", "shipping_a": "由您承担，我们发错货或商品破损的除外。",
        "refund": "退款要多久到账？", "refund_a": "按原支付方式退回，几个工作日内到账。",
        "large": "灯比较大，会上门取件吗？", "large_a": "会的，大件由承运人上门取件，事先电话联系。",
        "ask": "我的订单到哪了？请帮我查一下：你这里记的订单号是哪个？",
        "never": "我之前告诉过你我订的灯是什么颜色？",
        "right": f"您的订单号是 {ORDER}，我马上为您查询。", "again": "请您提供一下订单号，好吗？", "unknown": "这个我不知道。",
        "talk": "好的，谢谢。|这盏灯是送给姨妈的。|她住在三楼。|那里的楼梯比较窄。|她快过生日了。|明白了。",
        "talk_a": "不客气。|真是贴心的礼物。|好的，三楼。|承运人会处理好的。|祝她生日快乐。|还有别的问题吗？",
    },
}  # fmt: skip

# ---- fifty turns ------------------------------------------------------------------------------------------------------------------

PRODUCTS: Mapping[Lang, Sequence[str]] = {
    "en": ("shelf", "desk", "rug", "mirror", "bench", "stool", "lamp"),
    "zh": ("书架", "书桌", "地毯", "镜子", "长凳", "凳子", "台灯"),
}
SMALL_TALK: Mapping[Lang, Sequence[tuple[str, str]]] = {
    "en": (
        ("Is the {p} made of solid wood?", "The {p} comes with a solid frame and a veneered surface."),
        ("Does the {p} come in other shades?", "Yes, the {p} comes light and dark, both are in stock."),
        ("Is the {p} easy to put together?", "The {p} takes about half an hour with the tool in the box."),
        ("How do I clean the {p}?", "A damp cloth will do for the {p}, nothing else is needed."),
        ("Can the {p} stand in a damp room?", "Better not, the {p} is meant for dry rooms only."),
        ("Do you have a picture of the {p}?", "There are pictures of the {p} on its page, front and side."),
        ("Is there a smaller {p}?", "There is a narrow {p} too, and it costs a little less."),
    ),
    "zh": (
        ("{p}是实木的吗？", "{p}的框架是实木，表面是贴皮。"),
        ("{p}有别的颜色吗？", "有的，{p}有浅色和深色两种，都有现货。"),
        ("{p}好装吗？", "{p}用盒子里的工具大约半小时就能装好。"),
        ("{p}怎么清洁？", "{p}用湿布擦一擦就可以，不需要别的。"),
        ("{p}能放在潮湿的房间里吗？", "最好不要，{p}只适合放在干燥的房间。"),
        ("有{p}的照片吗？", "{p}的页面上有正面和侧面的照片。"),
        ("{p}有小一点的吗？", "{p}还有一款窄的，价格也便宜一些。"),
    ),
}
FIFTY: Mapping[Lang, Mapping[str, str]] = {
    "en": {
        "name": "Hello, this is Ines Falk, customer 70318.", "name_a": "Hello, how can I help?",
        "order": f"It is about my order {ORDER}.", "order_a": "Thank you, I have it.",
        "phone": "You can reach me at 13800452217.", "phone_a": "Noted.",
        "door": "One thing: leave the parcel with the neighbour, never at the door.", "door_a": "Understood.",
        "ask_order": "Where is my order? Name the order number that you are looking up.",
        "ask_phone": "Which phone number will the driver call?",
        "ask_customer": "Under which customer number are you looking this up?",
        "ask_door": "Where will the parcel be left?",
        "ask_order_2": "One last time for my notes: what is my order number?",
        "right_order": f"Your order number is {ORDER}.", "right_phone": "The driver will call 13800452217.",
        "right_customer": "Customer 70318.", "right_door": "With the neighbour, not at the door.",
        "again": "Could you tell me your order number again?", "unknown": "That is unknown to me.",
        "summary": (
            "A customer of the shop asked about furniture: whether it is of solid wood, which shades there are, how to put it together and how to clean "
            "it, whether it may stand in a damp room, whether there are pictures and smaller models. The desk answered: solid frames, light and dark "
            "shades, half an hour with the tool in the box, a damp cloth, dry rooms only, pictures on the page, narrow models for a little less."
        ),
    },
    "zh": {
        "name": "你好，我是叶宁，客户编号 70318。", "name_a": "您好，请问有什么可以帮您？",
        "order": f"我想问一下订单 {ORDER}。", "order_a": "好的，已经记下。",
        "phone": "我的电话是 13800452217。", "phone_a": "已记下。",
        "door": "有一点：包裹请交给邻居，千万不要放在门口。", "door_a": "明白。",
        "ask_order": "我的订单到哪了？请说出你正在查的订单号。", "ask_phone": "司机会打哪个电话？",
        "ask_customer": "你是按哪个客户编号查的？", "ask_door": "包裹会放在哪里？", "ask_order_2": "最后再确认一次，我的订单号是多少？",
        "right_order": f"您的订单号是 {ORDER}。", "right_phone": "司机会打 13800452217。", "right_customer": "客户编号 70318。",
        "right_door": "交给邻居，不放门口。", "again": "请您再提供一下订单号。", "unknown": "这个我不知道。",
        "summary": (
            "顾客咨询了几样家具：是否实木、有哪些颜色、怎么安装、怎么清洁、能不能放在潮湿的房间、有没有照片、有没有小一点的款式。客服答复："
            "框架实木，浅色深色都有现货，用盒子里的工具半小时装好，湿布擦拭即可，只适合干燥的房间，页面上有照片，另有便宜一些的窄款。"
        ),
    },
}  # fmt: skip

# ---- analysis -----------------------------------------------------------------------------------------------------------------------

CATEGORIES: Mapping[Lang, Sequence[str]] = {
    "en": ("furniture", "lighting", "textiles", "kitchen", "garden"),
    "zh": ("家具", "灯具", "纺织", "厨具", "园艺"),
}
ANALYSIS: Mapping[Lang, Mapping[str, str]] = {
    "en": {
        "year": "Analyse the sales of 2025: make three charts, by quarter, by region and by category.",
        "year_a": "Three charts are made. Sales of 2025 came to 884,120 in all; the north led, and furniture led the categories.",
        "more": "Which quarter of 2025 was the weakest?", "more_a": "The second quarter of 2025, with 198,340.",
        "switch": "Never mind, look at 2026-Q1 instead. From now on only that period counts.",
        "switch_a": "Understood, the period is 2026-Q1. Its sales came to 231,775; the south led.",
        "talk": "Use short sentences.", "talk_a": "I will.",
        "ask": "State your conclusion: which period is it about, what were its sales in all, and which region led?",
        "right": "The conclusion is about 2026-Q1: sales of 231,775 in all, with the south in the lead.",
        "old": "In 2025 sales came to 884,120 in all, with the north in the lead.",
        "rows": "Last month's sales by category, please.", "rows_a": "I have the rows.",
        "totals": "Give me last month's sales by category now: {a}, {b} and {c}, each with its total.",
        "unknown": "That is unknown to me.",
        "charts": "by quarter 241,860 198,340 212,505 231,415; by region north 402,610 south 281,330 west 200,180; chart {n} drawn",
        "q1": "2026-Q1: sales 231,775; south 101,240, north 88,120, west 42,415",
    },
    "zh": {
        "year": "请分析 2025 年的销售数据：按季度、地区、品类各做一张图。",
        "year_a": "三张图已做好。2025 年销售额合计 884,120 元，北区领先，品类以家具居首。",
        "more": "2025 年哪个季度最弱？", "more_a": "2025 年第二季度，198,340 元。",
        "switch": "算了，改看 2026-Q1。从现在起只看这个时间段。",
        "switch_a": "明白，时间段改为 2026-Q1，销售额 231,775 元，南区领先。",
        "talk": "句子请写短一些。", "talk_a": "好的。",
        "ask": "请给出结论：针对哪个时间段，销售额合计多少，哪个地区领先？",
        "right": "结论针对 2026-Q1：销售额合计 231,775 元，南区领先。", "old": "2025 年销售额合计 884,120 元，北区领先。",
        "rows": "请查一下上个月各品类的销售额。", "rows_a": "明细已经取到。",
        "totals": "现在请给出上个月{a}、{b}、{c}三个品类各自的销售额合计。", "unknown": "这个我不知道。",
        "charts": "按季度 241,860 198,340 212,505 231,415；按地区 北区 402,610 南区 281,330 西区 200,180；第 {n} 张图已生成",
        "q1": "2026-Q1：销售额 231,775；南区 101,240，北区 88,120，西区 42,415",
    },
}  # fmt: skip

# ---- address -------------------------------------------------------------------------------------------------------------------------

ADDRESS: Mapping[Lang, Mapping[str, str]] = {
    "en": {
        "profile": "Please look up my profile; I would like to order a chair.", "profile_a": "Your profile says Beijing. Which chair would you like?",
        "result": "customer 70318: city Beijing, address Chaoyang, Beijing, member since 2019",
        "chair": "The oak one, and send it to Beijing.", "chair_a": "The oak chair to Chaoyang, Beijing.",
        "change": "Wait, I have moved: send it to Pudong, Shanghai.", "change_a": "Noted, to Pudong, Shanghai.",
        "back": "Hm, or rather to my parents in Beijing after all.", "back_a": "Then to Chaoyang, Beijing.",
        "final": "No, now it is final: my delivery address is Pudong, Shanghai. Beijing no longer holds.", "final_a": "Understood, the address is changed.",
        "cushion": "Add a cushion to it, please.", "cushion_a": "A cushion is added.",
        "again": "Look at my profile again: is my membership shown?", "again_a": "Yes, member since 2019.",
        "wrap": "Wrap it as a present.", "wrap_a": "It will be wrapped.",
        "ask": "To which address do you send the chair?", "right": "To Pudong, Shanghai.", "old": "To Chaoyang, Beijing.",
        "both": "To Beijing or Shanghai.", "unknown": "That is unknown to me.",
    },
    "zh": {
        "profile": "请查一下我的资料，我想订一把椅子。", "profile_a": "资料里的城市是北京。请问要哪一款椅子？",
        "result": "客户 70318：城市 北京，地址 北京市朝阳区，2019 年入会",
        "chair": "要橡木的，寄到北京。", "chair_a": "好的，橡木椅子寄到北京市朝阳区。",
        "change": "等等，我搬家了，请寄到上海市浦东新区。", "change_a": "已记下，寄到上海市浦东新区。",
        "back": "嗯，要不还是寄到北京我父母那里吧。", "back_a": "那就寄到北京市朝阳区。",
        "final": "不，这次定了：收货地址为上海市浦东新区，北京的地址作废。", "final_a": "明白，地址已更改。",
        "cushion": "请再加一个坐垫。", "cushion_a": "已加上坐垫。",
        "again": "再看一下我的资料，会员信息有显示吗？", "again_a": "有的，2019 年入会。",
        "wrap": "请按礼品包装。", "wrap_a": "会包装好的。",
        "ask": "椅子寄到哪个地址？", "right": "寄到上海市浦东新区。", "old": "寄到北京市朝阳区。", "both": "寄到北京或上海。",
        "unknown": "这个我不知道。",
    },
}  # fmt: skip
