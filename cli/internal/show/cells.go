// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

// maxListed is how many items of a list a table shows.
const maxListed = 3

// list shows the first items of a list, and how many more there are.
func list(items []string) cell {
	if len(items) > maxListed {
		return plain(fmt.Sprintf("%s and %d more", strings.Join(items[:maxListed], ","), len(items)-maxListed))
	}
	return plain(strings.Join(items, ","))
}

// role returns a built-in role, or the name of another one.
func role(r typev1.AccessRole, name string) cell {
	if r == typev1.AccessRole_ACCESS_ROLE_UNSPECIFIED {
		return plain(name)
	}
	return plain(document.EnumName(r))
}

func ends(at *timestamppb.Timestamp, now time.Time) cell {
	switch {
	case at == nil:
		return plain("never")
	case !now.IsZero() && at.AsTime().Before(now):
		return cell{"ended", red}
	}
	return plain(at.AsTime().UTC().Format(time.RFC3339))
}

// stateCell formats a state like Kubernetes, such as "Healthy", in the colour of its meaning. A state
// that is neither good, bad nor on its way has none.
func stateCell(state protoreflect.Enum) cell {
	name := document.EnumName(state)
	c := cell{}
	switch name {
	case "unspecified":
		name = "unknown"
	case "healthy", "ready":
		c.color = green
	case "failed", "degraded", "missing":
		c.color = red
	case "pending", "syncing", "progressing", "terminating", "stale", "cloning":
		c.color = yellow
	case "superseded":
		c.color = faint
	}
	c.text = strings.ToUpper(name[:1]) + name[1:]
	return c
}

func yes(is bool) cell {
	if is {
		return cell{text: "yes"}
	}
	return cell{text: "no"}
}

func ratio(part, all int32) cell {
	if all == 0 {
		return plain("")
	}
	return plain(fmt.Sprintf("%d/%d", part, all))
}

// problem formats a problem in one line, the reason first.
func problem(p *typev1.Problem) cell {
	if p == nil {
		return cell{}
	}
	return cell{text: strings.Join(strings.Fields(document.EnumName(p.GetReason())+": "+p.GetMessage()), " ")}
}

// alarming shows a number that should be zero.
func alarming(n int64) cell {
	if n == 0 {
		return plain("0")
	}
	return cell{fmt.Sprint(n), red}
}

func ago(at *timestamppb.Timestamp, now time.Time) cell {
	if at == nil {
		return plain("")
	}
	return plain(span(now.Sub(at.AsTime())) + " ago")
}

// span formats a duration in its largest unit: "45s", "12m", "3h", "9d".
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}

// memory formats bytes like Kubernetes, to a tenth: "512", "1.5Gi", "64Gi".
func memory(bytes int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	unit, size := 0, float64(bytes)
	for size >= 1024 && unit < len(units)-1 {
		size /= 1024
		unit++
	}
	return strings.TrimSuffix(strconv.FormatFloat(size, 'f', 1, 64), ".0") + units[unit]
}

// line returns a value in one line.
func line(text string) cell {
	return plain(strings.Join(strings.Fields(text), " "))
}

// named is the name of an object in a message.
type named interface {
	GetKind() string
	GetNamespace() string
	GetName() string
}

// objectName returns the kind, namespace and name of an object as people write them: "Deployment
// shop/web".
func objectName(ref named) string {
	return ref.GetKind() + " " + strings.TrimPrefix(ref.GetNamespace()+"/"+ref.GetName(), "/")
}
