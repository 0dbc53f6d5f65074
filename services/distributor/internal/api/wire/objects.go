// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// Bounds of what an agent reports about the objects of a service. The rest is cut.
const (
	// maxReportObjects bounds each list of objects.
	maxReportObjects = 50
	// maxRenderWarnings bounds the warnings of a render, and maxRenderWarning the bytes of one.
	maxRenderWarnings, maxRenderWarning = 5, 200
	// maxDriftFields bounds the changed fields of one object.
	maxDriftFields = 20
	// maxTestLog bounds the end of a test's log, in bytes.
	maxTestLog = 4 << 10
)

func refMessage(r catalog.ObjectRef) *typev1.ObjectRef {
	return &typev1.ObjectRef{Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

func refOf(m *typev1.ObjectRef) catalog.ObjectRef {
	return catalog.ObjectRef{Group: m.GetGroup(), Version: m.GetVersion(), Kind: m.GetKind(), Namespace: m.GetNamespace(), Name: m.GetName()}
}

func statusMessage(o catalog.ObjectStatus) *typev1.ObjectStatus {
	return &typev1.ObjectStatus{
		Ref: refMessage(o.ObjectRef), Health: enumname.Value[typev1.Health](o.Health), Problem: catalogwire.ProblemMessage(o.Problem),
	}
}

func statusOf(m *typev1.ObjectStatus) catalog.ObjectStatus {
	return catalog.ObjectStatus{
		ObjectRef: refOf(m.GetRef()), Health: enumname.Of(m.GetHealth()), Problem: catalogwire.ProblemOf(m.GetProblem()),
	}
}

func driftMessage(o catalog.ObjectDrift) *distributorv1.ObjectDrift {
	return &distributorv1.ObjectDrift{
		Ref: refMessage(o.ObjectRef),
		Fields: Each(o.Fields, func(f catalog.FieldDrift) *distributorv1.FieldDrift {
			return &distributorv1.FieldDrift{Path: f.Path, Old: f.Old, New: f.New, Manager: f.Manager}
		}),
	}
}

func driftOf(m *distributorv1.ObjectDrift) catalog.ObjectDrift {
	return catalog.ObjectDrift{
		ObjectRef: refOf(m.GetRef()),
		Fields: Each(first(m.GetFields(), maxDriftFields), func(f *distributorv1.FieldDrift) catalog.FieldDrift {
			return catalog.FieldDrift{Path: f.GetPath(), Old: f.GetOld(), New: f.GetNew(), Manager: f.GetManager()}
		}),
	}
}

func testMessage(t catalog.TestResult) *distributorv1.TestReport {
	return &distributorv1.TestReport{
		Ref: refMessage(t.ObjectRef), Passed: t.Passed, Message: t.Message, LogTail: t.LogTail,
		StartedAt: catalogwire.Timestamp(t.StartedAt), EndedAt: catalogwire.Timestamp(t.EndedAt),
	}
}

func testOf(m *distributorv1.TestReport) catalog.TestResult {
	log := m.GetLogTail()
	return catalog.TestResult{
		ObjectRef: refOf(m.GetRef()), Passed: m.GetPassed(), Message: m.GetMessage(),
		LogTail:   strings.ToValidUTF8(log[max(len(log)-maxTestLog, 0):], ""),
		StartedAt: catalogwire.TimeOf(m.GetStartedAt()), EndedAt: catalogwire.TimeOf(m.GetEndedAt()),
	}
}

func runningTestMessage(t *catalog.TestResult) *distributorv1.TestReport {
	if t == nil {
		return nil
	}
	return testMessage(*t)
}

// runningTestOf returns the test that an agent reports to run, without a longer message than agents
// send.
func runningTestOf(m *distributorv1.TestReport) *catalog.TestResult {
	if m == nil {
		return nil
	}
	running := testOf(m)
	running.Message, running.LogTail = renderWarningOf(running.Message), ""
	return &running
}

func dryRunMessage(d *catalog.DryRun) *distributorv1.DryRunReport {
	if d == nil {
		return nil
	}
	return &distributorv1.DryRunReport{
		Created: d.Created, Updated: d.Updated, Deleted: d.Deleted, Unchanged: d.Unchanged,
		Changes: Each(d.Changes, func(c catalog.DryRunChange) *distributorv1.DryRunChange {
			return &distributorv1.DryRunChange{
				Ref: refMessage(c.ObjectRef), Action: enumname.Value[distributorv1.DryRunAction](c.Action),
			}
		}),
	}
}

func dryRunOf(m *distributorv1.DryRunReport) *catalog.DryRun {
	if m == nil {
		return nil
	}
	return &catalog.DryRun{
		Created: m.GetCreated(), Updated: m.GetUpdated(), Deleted: m.GetDeleted(), Unchanged: m.GetUnchanged(),
		Changes: Each(first(m.GetChanges(), maxReportObjects), func(c *distributorv1.DryRunChange) catalog.DryRunChange {
			return catalog.DryRunChange{ObjectRef: refOf(c.GetRef()), Action: enumname.Of(c.GetAction())}
		}),
	}
}

// renderWarningOf returns a warning of a render within its bounds.
func renderWarningOf(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxRenderWarning)], "")
}
