// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// TestSecTextsOfNotifiersAreCheap: a text that costs more than a message of many events needs is not
// evaluated to its end, and the message has the default text.
func TestSecTextsOfNotifiersAreCheap(t *testing.T) {
	t.Parallel()
	m := notice.Example(notice.ServiceFailed, "the-id", time.Unix(0, 0))
	for range 100 {
		m = m.Add(m.Events[0])
	}
	plain, err := m.Text(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	const names = `string(self.count) + ': ' + self.events.map(e, e.service + '@' + e.cluster + ' ' + e.reason + ' ' + e.message).join(', ')`
	if text, err := m.Text(t.Context(), names); err != nil || !strings.Contains(text, "example@example EXAMPLE") {
		t.Errorf("got %q, %v of a text that names every event", text, err)
	}
	const digits = "[0,1,2,3,4,5,6,7,8,9]"
	costly := digits + ".exists(a, " + digits + ".exists(b, " + digits + ".exists(c, " + digits + ".exists(d, a + b + c + d > 99)))) ? 'a' : 'b'"
	if text, err := m.Text(t.Context(), costly); err == nil || text != plain {
		t.Errorf("got %q, %v of a text that costs too much, want the default text and an error", text, err)
	}
}
