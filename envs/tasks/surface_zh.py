"""Typed values as Chinese texts write them."""

from __future__ import annotations

import random
from collections.abc import Sequence

SURNAMES = (
    "王", "李", "张", "刘", "陈", "杨", "赵", "黄", "周", "吴", "徐", "孙", "胡", "朱", "高", "林", "何", "郭", "马", "罗", "梁", "宋",
    "郑", "谢", "韩", "唐", "冯", "于", "董", "萧",
)  # fmt: skip
GIVEN = (
    "舟", "敏", "磊", "静", "洋", "倩", "涛", "颖", "鹏", "蕾", "建国", "晓彤", "志强", "雨桐", "思远", "文博", "佳宁", "浩然", "秀兰",
    "子涵", "俊杰", "美玲", "国栋", "雪梅", "立群", "若曦", "海燕", "明轩",
)  # fmt: skip
"""No given name is the beginning of another, so that a shorter name never stands inside a longer one."""
STREETS = (
    "和平路", "建设路", "人民路", "解放路", "中山路", "长江路", "黄河路", "文化路", "友谊路", "青年路", "胜利路", "光明路", "迎宾路",
    "滨河路", "学院路", "振兴路", "朝阳路", "西园路", "东湖路", "南桥路", "北苑路", "翠竹路", "桃源路", "银杏路",
)  # fmt: skip
HOTELS = (
    "云海", "锦绣", "东方", "华庭", "金陵", "天鹅", "长城", "半岛", "维景", "星河", "望江", "碧波", "紫荆", "凯悦", "丽都", "盛世", "兰亭",
    "观澜", "听涛", "悦来",
)  # fmt: skip
HOUSES = (
    "大酒店", "国际酒店", "假日酒店", "商务酒店", "度假酒店", "花园酒店", "宾馆", "饭店", "公寓酒店", "温泉酒店", "会议中心酒店", "精品酒店",
)  # fmt: skip

PATTERNS_ZH = {
    "amount": r"\d{3,6}",
    "part": r"\d{3,6}",
    "code": r"[A-Z]{2}-\d{4}",
    "date": r"(?<!\d)\d{1,2}月\d{1,2}日",
    "clock": r"\d{2}:\d{2}",
    "person": f"(?:{'|'.join(SURNAMES)})(?:{'|'.join(sorted(GIVEN, key=len, reverse=True))})",
    "address": rf"(?:{'|'.join(STREETS)})\d{{1,3}}号",
    "hotel": f"(?:{'|'.join(HOTELS)})(?:{'|'.join(HOUSES)})",
    "weight": r"\d{2,4}\.\d千克",
    "tare": r"\d{2,4}\.\d千克",
    "room": r"[A-H]\d{3}",
    "version": r"\d{1,2}\.\d{1,2}\.\d{1,2}",
    "reading": r"\d{1,3}\.\d{2}",
}


def draw_zh(kind: str, rng: random.Random) -> str | None:
    """A random value of a kind that Chinese writes in its own way; None for kinds that are written alike."""
    match kind:
        case "date":
            return f"{rng.randrange(1, 13)}月{rng.randrange(1, 29)}日"
        case "person":
            return rng.choice(SURNAMES) + rng.choice(GIVEN)
        case "address":
            return f"{rng.choice(STREETS)}{rng.randrange(1, 199)}号"
        case "weight":
            return f"{rng.randrange(210, 2000)}.{rng.randrange(10)}千克"
        case "tare":
            return f"{rng.randrange(10, 200)}.{rng.randrange(10)}千克"
        case "hotel":
            return rng.choice(HOTELS) + rng.choice(HOUSES)
    return None


UNITS = (
    "立方米每秒", "万元", "元", "厘米", "米", "KB", "NTU", "秒", "次", "个", "件", "行", "份", "笔", "管", "倍", "位", "单",
)  # fmt: skip
"""Units of measure that follow a number, the longer of two that begin alike first."""


def units(says: Sequence[str]) -> tuple[str, ...]:
    """The units that sentences give ``{v}``."""
    after = (t.partition("{v}")[2] for t in says)
    return tuple(dict.fromkeys(u for rest in after if (u := next((x for x in UNITS if rest.startswith(x)), ""))))


def accepted_zh(kind: str, value: str, says: Sequence[str] = ()) -> tuple[str, ...]:
    """Accepted forms of a value, the canonical one first."""
    if kind in ("amount", "part", "reading"):
        plain = (value,) if kind == "reading" else tuple(dict.fromkeys((value, f"{int(value):,}")))
        return (*plain, *(f"{v}{unit}" for unit in units(says) for v in plain))
    if kind == "date":
        month, day = value[:-1].split("月")
        return (value, f"{month}月{day}号", f"{month}.{day}", f"{month}/{day}", f"{int(month):02d}月{int(day):02d}日")
    if kind in ("weight", "tare"):
        number = value.removesuffix("千克")
        return (value, number, f"{number}公斤", f"{number}kg")
    if kind == "clock":
        hour, minute = value.split(":")
        return (value, f"{hour}点{minute}分", f"{int(hour)}:{minute}")
    return (value,)
