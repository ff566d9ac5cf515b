"""The 28 records and the questions of ``seed_bench28``, in both languages: a stopped parcel sorter, noted through one night.

The answers stand in short, one-off records; the other records repeat each other's words, as status notes do. Records 21 to 28 are
the newest ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from eval.suites.base import Lang


@dataclass(frozen=True, slots=True)
class Question:
    """One question: every one of ``keys`` must be in the reply (each a tuple of accepted forms), ``records`` hold them (from 1)."""

    id: str
    text: str
    keys: tuple[tuple[str, ...], ...]
    records: tuple[int, ...]
    kind: str = "single"


RECORDS: dict[Lang, tuple[str, ...]] = {
    "en": (
        "The team will check the sorter and the line now.",
        "First stop of our sorter: 02:47, by lane K6.",
        "Dump 4F A0 17 9C 33 B8 02 61 7D E5 90 1A C4 58 0B F7 26 83 D1 6E 49 AC 35 78 E0 12 9B 54 C7 08 F3 6A 2D 81 BE 40 97 15 5C D8 63 0E A9 72 FB 34 86 1D C0 59.",
        "Bogdan's first guess was a worn belt.",
        "Setting behind it: retry_window_ms, said Ola.",
        "The team will report on the sorter, then on the line.",
        "Parcels held back by four: 3184.",
        "Which cause was proven, sales asked us at one.",
        "Fix approved by Mirela Dunn, by phone.",
        "The team will report, then the shift will wait.",
        "The fixed build has the number RB-8419.",
        "Which guess and which cause, sales asked again.",
        "A stale barcode table is to blame, says our vendor.",
        "The team will check the line and then the sorter.",
        "Did Bogdan have any proven cause at all by then?",
        "Trace PLC-552 ruled out the cable.",
        "The shift will report on the line again.",
        "A gateway fault was named too, but never proven.",
        "Pallets went via Oradea until dawn.",
        "Nothing went missing, cages: 412 377 405 398 421 366 409 418 380 393 402 371 415 388 427 364 411 396 419 383 404 372 416 390 425 369 408 397 413 386 420 375 401.",
        "The team will wait on the line again.",
        "The team will check the sorter and the line, 06:15.",
        "Free buns until noon, kindly tidy up.",
        "The shift will report on the sorter.",
        "Painters come on Tuesday, so kindly walk round and mind your cuffs.",
        "Late parcels get the refund code RF-7730.",
        "Two fans hum loudly, janitors found nothing unusual, so both stay.",
        "The team will check the line.",
    ),
    "zh": (
        "值班组继续盯着分拣线，有变化随时在群里通报，其他班次先按原来的排班表上岗，夜里不再一一另行通知各位同事，有急事请打值班电话。",
        "分拣机第一次停机是在凌晨02:47，位置在K6通道，当时只有两个人在场，他们马上按下了急停，随后打电话叫来了当班的主管。",
        "有人猜是磁盘写满了，查了一圈没有任何依据，这个猜测最后被认定和停机无关，大家从那以后就再也不提起它了。",
        "博格丹最初怀疑的方向是皮带磨损，他当场就要求停线，拆开来仔仔细细看一看，再往下说，别的事情先放一放。",
        "背后的配置项名叫retry_window_ms，上个月才有人改动过它的数值，改的时候没有走评审流程，也没留下任何记录。",
        "值班组继续盯着分拣线，有变化随时在群里通报，现场的照片稍后再补，目前没有什么新的情况需要大家去处理，请安心。",
        "截至四点，被压住没发走的包裹共有3184件，全都堆放在二号笼区，用蓝布盖了起来，有专人看着，谁也不让动。",
        "夜班长问最初怀疑的方向查得怎样，最后认定的原因又是什么，群里一时没有人答得上来，都说还要再等一等消息。",
        "修复方案由苏芮批准，她是在电话里口头同意的，书面的邮件等过后再补上，先照办就是，责任由她来承担就好了。",
        "值班组继续盯着分拣线，有变化随时在群里通报，客服那边先用统一口径对外答复，其余细节等白班接手以后再说。",
        "修好的版本号是RB-8419，已经先装到了三台备用机上面，正在试着运行，到目前为止看起来一切都还算好。",
        "客服台也来问最后认定的原因是什么，最初怀疑的方向又是什么，催着要一个说法，好去答复那些打电话来问的客户。",
        "供应商查明祸首其实是条码对照表过期，并为此正式道了歉，答应当天就把新的一份发过来，费用全由他们自己承担，另外再派一位工程师。",
        "值班组继续盯着分拣线，有变化随时在群里通报，其他班次先按原来的排班表上岗，几台叉车照常在场内巡检不停，限速照旧。",
        "夜班长又问一遍，最初怀疑的方向和最后认定的原因是不是一回事，没人愿意开口，都在等着别人先来说这件事。",
        "排除线缆问题的是日志PLC-552，里面的时间戳和报警完全对不上，两个人分别核对过，两边的结论是一模一样的。",
        "值班组继续盯着分拣线，有变化随时在群里通报，现场的照片稍后再补，两台空压机上面的读数一直都还算正常，不用管。",
        "聊天里还有人提到网关故障，说得有鼻子有眼，可是谁也没有拿出过证据，后来就没下文了，也没有人再去追问过这件事。",
        "托盘改走奥拉迪亚，天亮才恢复原样，几位司机对此都没有什么怨言，还顺路带回来两箱当地的苹果，分给夜里值守的同事们尝尝鲜。",
        "清点之后确认一件包裹也没有丢，各个笼车里的数目和系统全都一致，早会上已经当面向大家说明过了，事后还留了签字的清单备查。",
        "值班组继续盯着分拣线，有变化随时在群里通报，备件已经到了门口，会有人去取回来的。",
        "值班组继续盯着分拣线，有变化随时在群里通报，下次复查定在06:15。",
        "夜宵由站点请客，热饮和面包放在休息室里，白班的同事来了也可以自己去拿，不用再登记，吃完记得把桌子收拾干净，垃圾随手带走哦。",
        "值班组继续盯着分拣线，有变化随时在群里通报，其余一切都照旧进行。",
        "通道的标识牌这周要重新刷漆，颜色还是用原来的那种黄色，刷漆期间请大家绕开西侧走，别蹭到衣服上，大约两天之后干透。",
        "迟到包裹的退款代码是RF-7730，客服从今天早上起就可以直接使用，不用上报。",
        "机房里有两台风扇响声偏大，物业来看过了，认为不要紧，等月底做保养的时候再一起换掉就行，这段时间先听着，别去动它。",
        "白班开始接手，钥匙放在前台，交接单还差一位同事的签名，请尽快补上，补完以后拍照留底，谢谢。",
    ),
}  # fmt: skip

QUESTIONS: dict[Lang, tuple[Question, ...]] = {
    "en": (
        Question("q1", "When was the first stop of our sorter?", (("02:47", "2:47"),), (2,)),
        Question("q2", "Which setting is behind it?", (("retry_window_ms",),), (5,)),
        Question("q3", "How many parcels were held back?", (("3184",),), (7,)),
        Question("q4", "At what time will the team check the line and the sorter?", (("06:15", "6:15"),), (22,)),
        Question("q5", "Who approved the fix?", (("Mirela Dunn",),), (9,)),
        Question("q6", "Which number has the fixed build?", (("RB-8419",),), (11,)),
        Question("q7", "Which trace ruled out the cable?", (("PLC-552",),), (16,), "ruled_out"),
        Question("q8", "Which refund code do late parcels get?", (("RF-7730",),), (26,)),
        Question(
            "q9", "Which first guess did Bogdan have, and which cause was proven?",
            (("worn belt",), ("stale barcode table", "barcode table")), (4, 13), "across",
        ),
        Question("q10", "Through which city did cargo go?", (("Oradea",),), (19,), "paraphrased"),
    ),
    "zh": (
        Question("q1", "分拣机第一次停机是在什么时候？", (("02:47", "2:47"),), (2,)),
        Question("q2", "背后的配置项叫什么？", (("retry_window_ms",),), (5,)),
        Question("q3", "被压住没发走的包裹有多少件？", (("3184",),), (7,)),
        Question("q4", "下次复查定在什么时候？", (("06:15", "6:15"),), (22,)),
        Question("q5", "修复方案最后由谁批准？", (("苏芮",),), (9,)),
        Question("q6", "已经修好的版本号是多少？", (("RB-8419",),), (11,)),
        Question("q7", "最后排除线缆问题的是哪份日志？", (("PLC-552",),), (16,), "ruled_out"),
        Question("q8", "迟到包裹的退款代码是什么？", (("RF-7730",),), (26,)),
        Question(
            "q9", "最初怀疑的方向是什么，最后认定的原因又是什么？",
            (("皮带磨损", "皮带"), ("条码对照表过期", "条码对照表", "对照表")), (4, 13), "across",
        ),
        Question("q10", "货物临时绕行到了哪座城市？", (("奥拉迪亚",),), (19,), "paraphrased"),
    ),
}  # fmt: skip

PRIOR: dict[Lang, Question] = {
    "en": Question("prior", "Did anything go missing? Answer yes or no.", (("no",),), (20,), "yes_no"),
    "zh": Question("prior", "有没有丢包裹？只答有或没有。", (("没有", "没丢", "无", "否"),), (20,), "yes_no"),
}
"""The bare yes/no: a model may guess it, so it is a control and never counted."""
