// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// maxTestLog bounds the end of a test's log, in bytes; what is before is cut.
const maxTestLog = 4 << 10

// actionPrefix begins the names of all actions on the wire.
const actionPrefix = "DRY_RUN_ACTION_"

func testMessages(tests []catalog.TestResult) []*distributorv1.TestReport {
	var all []*distributorv1.TestReport
	for _, t := range tests {
		all = append(all, &distributorv1.TestReport{
			Ref:    &typev1.ObjectRef{Group: t.Group, Version: t.Version, Kind: t.Kind, Namespace: t.Namespace, Name: t.Name},
			Passed: t.Passed, Message: t.Message, LogTail: t.LogTail, StartedAt: Timestamp(t.StartedAt), EndedAt: Timestamp(t.EndedAt),
		})
	}
	return all
}

func testsOf(messages []*distributorv1.TestReport) []catalog.TestResult {
	var all []catalog.TestResult
	for _, m := range messages[:min(len(messages), maxReportObjects)] {
		ref, log := m.GetRef(), m.GetLogTail()
		all = append(all, catalog.TestResult{
			Group: ref.GetGroup(), Version: ref.GetVersion(), Kind: ref.GetKind(), Namespace: ref.GetNamespace(), Name: ref.GetName(),
			Passed: m.GetPassed(), Message: m.GetMessage(), LogTail: strings.ToValidUTF8(log[max(len(log)-maxTestLog, 0):], ""),
			StartedAt: TimeOf(m.GetStartedAt()), EndedAt: TimeOf(m.GetEndedAt()),
		})
	}
	return all
}

func dryRunMessage(d *catalog.DryRun) *distributorv1.DryRunReport {
	if d == nil {
		return nil
	}
	m := &distributorv1.DryRunReport{Created: d.Created, Updated: d.Updated, Deleted: d.Deleted, Unchanged: d.Unchanged}
	for _, c := range d.Changes {
		m.Changes = append(m.Changes, &distributorv1.DryRunChange{
			Ref:    &typev1.ObjectRef{Group: c.Group, Version: c.Version, Kind: c.Kind, Namespace: c.Namespace, Name: c.Name},
			Action: distributorv1.DryRunAction(distributorv1.DryRunAction_value[actionPrefix+c.Action]),
		})
	}
	return m
}

func dryRunOf(m *distributorv1.DryRunReport) *catalog.DryRun {
	if m == nil {
		return nil
	}
	d := &catalog.DryRun{Created: m.GetCreated(), Updated: m.GetUpdated(), Deleted: m.GetDeleted(), Unchanged: m.GetUnchanged()}
	for _, c := range m.GetChanges()[:min(len(m.GetChanges()), maxReportObjects)] {
		ref := c.GetRef()
		d.Changes = append(d.Changes, catalog.DryRunChange{
			Group: ref.GetGroup(), Version: ref.GetVersion(), Kind: ref.GetKind(), Namespace: ref.GetNamespace(), Name: ref.GetName(),
			Action: strings.TrimPrefix(c.GetAction().String(), actionPrefix),
		})
	}
	return d
}
