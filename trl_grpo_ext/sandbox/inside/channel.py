"""Messages between two processes: a length, then a value of [`~trl_grpo_ext.sandbox.codec`]."""

import os
from collections.abc import Callable
from typing import Any

from trl_grpo_ext.sandbox.codec import MAX_BYTES, CodecError, decode, encode


class ChannelClosed(Exception):
    """The other side is gone."""


class Channel:
    """
    One end of a stream socket or pipe, by its descriptor. Blocking, for one thread at a time.

    Args:
        descriptor (`int`):
            The descriptor to read from and write to.
        outgoing (`Callable`, *optional*):
            What stands for a value that is no plain data; see [`~trl_grpo_ext.sandbox.codec.encode`].
        incoming (`Callable`, *optional*):
            The reverse; see [`~trl_grpo_ext.sandbox.codec.decode`].
    """

    def __init__(
        self,
        descriptor: int,
        outgoing: Callable[[Any], tuple[int, str] | None] | None = None,
        incoming: Callable[[int, str], Any] | None = None,
    ):
        self.descriptor = descriptor
        self.outgoing = outgoing
        self.incoming = incoming

    def send(self, message: Any) -> None:
        """
        Write one message.

        Raises:
            [`~trl_grpo_ext.sandbox.codec.CodecError`]: before anything is written, if it is no plain data.
            [`ChannelClosed`]: if nobody reads.
        """
        data = encode(message, self.outgoing)
        data = len(data).to_bytes(4, "little") + data
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
        except (BrokenPipeError, ConnectionResetError):
            raise ChannelClosed from None

    def receive(self) -> Any:
        """
        Wait for one message.

        Raises:
            [`~trl_grpo_ext.sandbox.codec.CodecError`]: if what comes is no message.
            [`ChannelClosed`]: at the end.
        """
        size = int.from_bytes(self._read(4), "little")
        if size > MAX_BYTES:
            raise CodecError(f"a message of {size} bytes; the most is {MAX_BYTES}")
        return decode(self._read(size), self.incoming)

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = os.read(self.descriptor, min(size, 1 << 20))
            except ConnectionResetError:
                raise ChannelClosed from None
            if not part:
                raise ChannelClosed
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
