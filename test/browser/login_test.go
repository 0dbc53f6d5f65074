// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/testkit/program"
	"github.com/leatdev/leat/internal/testkit/standin"
	"github.com/leatdev/leat/test/openid"
)

// typeAtProvider signs in at the provider's page by the keyboard.
func (b *tab) typeAtProvider(t *testing.T, name string) {
	t.Helper()
	b.await(t, "Username:")
	b.press(t, kb.Tab)
	b.press(t, name)
	b.press(t, kb.Tab)
	b.press(t, openid.Password)
	b.press(t, kb.Enter)
}

// typeCode types the code of a device at the hub's page, whose field has the focus. The browser gives
// it the focus with the first frame that it draws, and loses keys that come before.
func (b *tab) typeCode(t *testing.T, code string) {
	t.Helper()
	b.awaitThat(t, "document.activeElement?.getAttribute('name') === 'code'")
	b.press(t, code)
	b.press(t, kb.Enter)
}

// signIn signs in at the hub's page.
func (h *hub) signIn(t *testing.T, b *tab, name string) {
	t.Helper()
	b.open(t, h.front.url(hubName)+"/login")
	b.typeAtProvider(t, name)
	b.await(t, "You are signed in as corp."+name)
}

// checkPage reports what the browser complains about, and what a screen reader would miss: the
// language, a heading, and a name for each control. controls are in order.
func (b *tab) checkPage(t *testing.T, controls ...string) {
	t.Helper()
	if got := b.complained(); len(got) > 0 {
		t.Errorf("%s: the browser complains: %q", b.where(), got)
	}
	if lang := script[string](t, b, "document.documentElement.lang"); lang != "en" {
		t.Errorf("%s: got language %q", b.where(), lang)
	}
	if headings := script[int](t, b, "document.querySelectorAll('h1').length"); headings != 1 {
		t.Errorf("%s: got %d headings, want one", b.where(), headings)
	}
	tree := value(t, b, func(ctx context.Context, target *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	var got []string
	for _, node := range tree.Nodes {
		if node.Role == nil || node.Name == nil {
			continue
		}
		if role := strings.Trim(string(node.Role.Value), `"`); slices.Contains([]string{"textbox", "button", "link", "checkbox", "combobox"}, role) {
			got = append(got, role+" "+strings.Trim(string(node.Name.Value), `"`))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, controls) {
		t.Errorf("%s: a screen reader finds the controls %q, want %q", b.where(), got, controls)
	}
}

// leat is the command line, built as people run it.
type leat struct {
	program string
	env     []string
}

func (h *hub) leat(t *testing.T, env ...string) *leat {
	t.Helper()
	dir := t.TempDir()
	binary, err := program.Compile(t.Context(), dir, "../../cli/cmd/leat")
	if err != nil {
		t.Fatal(err)
	}
	return &leat{program: binary, env: append([]string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "LEAT_CONFIG=" + filepath.Join(dir, "config.yaml"), "LEAT_CA_FILE=" + h.caFile,
	}, env...)}
}

func (l *leat) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), l.program, args...)
	command.Env = l.env
	return command
}

// run runs a command to its end, and returns what it prints.
func (l *leat) run(t *testing.T, args ...string) string {
	t.Helper()
	output, err := l.command(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("leat %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// TestLoginOpensTheBrowser runs `leat login`, which opens the browser that BROWSER names. A person
// signs in there by the keyboard, and the command line has a session until `leat logout`.
func TestLoginOpensTheBrowser(t *testing.T) {
	t.Parallel()
	h, b, dir := start(t), open(t), t.TempDir()
	// The page that the command opens is handed to the browser of the tests.
	pipe, opener := filepath.Join(dir, "address"), filepath.Join(dir, "open")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	standin.Write(t, opener, "#!/bin/sh\nprintf %s \"$1\" >'"+pipe+"'\n")
	l := h.leat(t, "BROWSER="+opener)
	command := l.command(t, "login", "https://127.0.0.1:"+h.front.port, "--name", "it")
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	command.Stdin = strings.NewReader("y\n") // the hub's page is at another host than the command was given
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	opened := make(chan string, 1)
	go func() {
		address, _ := os.ReadFile(pipe) // an empty address fails below
		opened <- string(address)
	}()
	var address string
	select {
	case address = <-opened:
	case err := <-ended:
		t.Fatalf("leat login ended with %v:\n%s", err, &output)
	}
	if !strings.HasPrefix(address, h.front.url(hubName)+"/login?") {
		t.Fatalf("got address %q, want the hub's page", address)
	}
	b.open(t, address)
	b.typeAtProvider(t, "ada")
	b.await(t, "You are signed in. You can close this page and go back to your terminal.")
	if err := <-ended; err != nil || !strings.Contains(output.String(), "as user:corp.ada until") {
		t.Fatalf("got %v:\n%s", err, &output)
	}
	if at := b.where(); !strings.HasPrefix(at, "http://127.0.0.1:") || strings.Contains(at, h.front.port) {
		t.Errorf("the browser ends at %s, want the command's own address", at)
	}
	if got := b.complained(); len(got) > 0 {
		t.Errorf("the browser complains: %q", got)
	}
	if got := l.run(t, "get", "sessions"); !strings.Contains(got, "corp.ada") {
		t.Errorf("got %s", got)
	}
	l.run(t, "logout")
	if output, err := l.command(t, "get", "sessions").CombinedOutput(); err == nil {
		t.Errorf("got %s after leat logout", output)
	}
}

// TestDeviceTypedInABrowser types the code of a machine without a browser at the hub's page, by the
// keyboard alone.
func TestDeviceTypedInABrowser(t *testing.T) {
	t.Parallel()
	h, b := start(t), open(t)
	device, err := h.sessions.StartDeviceSignIn(t.Context(), &fleetv1.StartDeviceSignInRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if device.GetVerificationUrl() != h.front.url(hubName)+"/device" {
		t.Fatalf("got %s", device.GetVerificationUrl())
	}
	b.open(t, device.GetVerificationUrl())
	b.await(t, "Type the code")
	b.checkPage(t, "button Go on", "textbox Code")
	b.typeCode(t, strings.ToLower(device.GetUserCode()))
	b.await(t, "Sign in the machine that shows "+device.GetUserCode()+"?")
	b.checkPage(t, "link Sign in with corp")
	b.press(t, kb.Tab)
	b.press(t, kb.Enter)
	b.typeAtProvider(t, "bob")
	b.await(t, "You are signed in as corp.bob")
	b.checkPage(t)
	made, err := h.sessions.CreateSession(t.Context(), &fleetv1.CreateSessionRequest{
		Proof: &fleetv1.CreateSessionRequest_DeviceCode{DeviceCode: device.GetDeviceCode()}, TokenHash: make([]byte, 32),
	})
	if err != nil || made.GetSession().GetPerson() != "corp.bob" {
		t.Errorf("got %v, %v, want bob's session", made, err)
	}
}

// cookies returns all cookies of the profile.
func (b *tab) cookies(t *testing.T) []*network.Cookie {
	t.Helper()
	return value(t, b, func(ctx context.Context, target *chromedp.Target) (network.GetCookiesResult, error) {
		return cdp.Call(ctx, target, network.GetCookies, network.GetCookiesParams{})
	}).Cookies
}
