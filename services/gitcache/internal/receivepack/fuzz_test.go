// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package receivepack_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// FuzzAnswers pushes to servers that list and report anything: a push succeeds only where the
// report has the words for it, and fails as it is promised.
func FuzzAnswers(f *testing.F) {
	f.Add(advertised("report-status side-band-64k"), report("unpack ok", "ok "+branch))
	f.Add(advertised("report-status"), line("unpack ok\n")+line("ok "+branch+"\n")+"0000")
	f.Add(advertised("report-status side-band-64k"), band(2, "words")+band(3, "fatal: words"))
	f.Add(advertised("report-status side-band-64k"), report("unpack ok", "ng "+branch+" declined"))
	f.Add("0000", "0000")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, listed, answer string) {
		err := push(t, &server{listed: listed, answer: answer}, nil)
		isPlain := !strings.Contains(listed, "side-band-64k") // a sideband may cut a line anywhere
		if err == nil && isPlain && (!strings.Contains(answer, "unpack ok") || !strings.Contains(answer, "ok "+branch)) {
			t.Errorf("got success for the report %q", answer)
		}
		if _, ok := errors.AsType[*mirror.UpstreamError](err); err != nil && !ok {
			t.Errorf("got %v, want an upstream's error", err)
		}
	})
}
