"""CTC losses and divergences by PyTorch, float64, for spec/metrics/ctc_spec.lua. Prints ctc.lua.

PyTorch's gradient of ctc_loss in log_probs supposes that a log_softmax comes before: slopes are those of logits."""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)


def rand(*shape):
    return torch.randn(*shape).mul(1000).round().div(1000)


def row(v):
    v = v.detach().tolist() if isinstance(v, torch.Tensor) else v
    return "{ " + ", ".join(map(row, v)) + " }" if isinstance(v, list) else repr(v).replace("inf", "math.huge")


logits = rand(7, 4, 5) * 2
labels = torch.tensor([[1, 2, 2, 3], [4, 4, 1, 1], [3, 2, 1, 3], [2, 2, 2, 4]])
steps, counts = torch.tensor([7, 6, 4, 7]), torch.tensor([4, 2, 3, 0])
tight, many = torch.tensor([7, 6, 4, 3]), torch.tensor([4, 2, 3, 3])  # three twos need five steps
print("-- Made by ctc.py with PyTorch", torch.__version__.split("+")[0])
print("return {")
print("  logits =", row(logits) + ", labels =", row(labels) + ",")
for name, lengths, label_lengths, more in (("full", torch.tensor([7] * 4), torch.tensor([4] * 4), {}),
                                           ("ragged", steps, counts, {}),
                                           ("blank", steps, torch.tensor([1, 2, 2, 1]), {"blank": 3}),
                                           ("tight", tight, many, {}),
                                           ("zero", tight, many, {"zero_infinity": True})):
    x = logits.clone().requires_grad_()
    own = labels if name != "blank" else torch.where(labels == 3, 0, labels)
    each = F.ctc_loss(x.log_softmax(2), own, lengths, label_lengths, reduction="none", **more)
    value = F.ctc_loss(x.log_softmax(2), own, lengths, label_lengths, **more)
    if name != "tight":
        value.backward()
    print(f"  {name} = {{ lengths = {row(lengths)}, label_lengths = {row(label_lengths)}, labels = {row(own)},")
    print(f"    each = {row(each)}, value = {row(value)}, slope = {row(x.grad) if name != 'tight' else 'nil'} }},")
for name, log_target in (("divergence", False), ("log_divergence", True)):
    x, y = rand(3, 4).requires_grad_(), rand(3, 4).requires_grad_()
    target = y.log_softmax(1) if log_target else y.softmax(1)
    value = F.kl_div(x.log_softmax(1), target, reduction="batchmean", log_target=log_target)
    value.backward()
    print(f"  {name} = {{ x = {row(x)}, y = {row(y)}, value = {row(value)}, slopes = {{ {row(x.grad)}, {row(y.grad)} }} }},")
print("}")
