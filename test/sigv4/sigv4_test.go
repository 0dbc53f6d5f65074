// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sigv4_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/cloud/sigv4"
)

// TestSignaturesAreThoseOfAWS signs requests by Leat's code and by AWS's, which no service links.
func TestSignaturesAreThoseOfAWS(t *testing.T) {
	t.Parallel()
	const id, key, region = "AKIDEXAMPLE", "secret/+with=signs", "eu-central-1"
	for i := range 200 {
		service, body := []string{"kms", "ecr"}[i%2], []byte(strings.Repeat("x", i*7))
		at, token := time.Unix(1_700_000_000+int64(i)*100_003, 0), ""
		if i%3 != 0 {
			token = fmt.Sprintf("token/%d==", i)
		}
		request := func() *http.Request {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+service+"."+region+".amazonaws.com/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-amz-json-1.1")
			r.Header.Set("X-Amz-Target", fmt.Sprintf("Service.Action%d", i))
			return r
		}
		ours, theirs := request(), request()
		sigv4.Keys{ID: id, Secret: key, Token: secret.Text(token)}.Sign(ours, body, region, service, at)
		sum := sha256.Sum256(body)
		keys := aws.Credentials{AccessKeyID: id, SecretAccessKey: key, SessionToken: token}
		if err := v4.NewSigner().SignHTTP(t.Context(), keys, theirs, hex.EncodeToString(sum[:]), service, region, at); err != nil {
			t.Fatal(err)
		}
		if got, want := ours.Header.Get("Authorization"), theirs.Header.Get("Authorization"); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}
