package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		name   string
		events string
		ledger string // what is appended
		say    string // part of what is printed
		err    string
	}{
		{
			name: "a passing package is one line",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
				{"Action":"pass","Package":"p","Test":"TestA"}
				{"Action":"pass","Package":"p"}`,
			ledger: "pass\tp.TestA\t\n",
			say:    "ok    p: 1\ntests: 1 passed, 0 failed, 0 skipped\n",
		},
		{
			name: "a failing test shows what it printed",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
				{"Action":"output","Package":"p","Test":"TestA","Output":"got 1, want 2\n"}
				{"Action":"fail","Package":"p","Test":"TestA"}
				{"Action":"fail","Package":"p"}`,
			ledger: "fail\tp.TestA\t\n",
			say:    "FAIL  p.TestA\n      got 1, want 2\n",
			err:    "1 failed",
		},
		{
			name: "an oracle test that is skipped gives its reason",
			events: `{"Action":"run","Package":"p","Test":"TestOracleZoo"}
				{"Action":"output","Package":"p","Test":"TestOracleZoo","Output":"    zoo_test.go:9: ORACLES is not set\n"}
				{"Action":"output","Package":"p","Test":"TestOracleZoo","Output":"--- SKIP: TestOracleZoo (0.00s)\n"}
				{"Action":"skip","Package":"p","Test":"TestOracleZoo"}
				{"Action":"pass","Package":"p"}`,
			ledger: "skip\tp.TestOracleZoo\tORACLES is not set\n",
			say:    "0 passed, 0 failed, 1 skipped",
		},
		{
			name: "any other skip is a failure",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
				{"Action":"skip","Package":"p","Test":"TestA"}
				{"Action":"pass","Package":"p"}`,
			ledger: "fail\tp.TestA\t\n",
			say:    "may not be skipped",
			err:    "1 failed",
		},
		{
			name: "a test that a crash left open failed",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
				{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}
				{"Action":"fail","Package":"p"}`,
			ledger: "fail\tp.TestA\t\n",
			say:    "      panic: no\n      it did not end\n",
			err:    "1 failed",
		},
		{
			name: "a package that does not build is one failure",
			events: `{"Action":"build-output","ImportPath":"p [p.test]","Output":"undefined: x\n"}
				{"Action":"build-fail","ImportPath":"p [p.test]"}
				{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			ledger: "fail\tp\t\n",
			say:    "FAIL  p\n      undefined: x\n",
			err:    "1 failed",
		},
		{
			name: "a package says which of those that it imports does not build",
			events: `{"Action":"build-output","ImportPath":"q","Output":"undefined: x\n"}
				{"Action":"build-fail","ImportPath":"q"}
				{"Action":"fail","Package":"p","FailedBuild":"q"}`,
			ledger: "fail\tp\t\n",
			say:    "FAIL  p\n      undefined: x\n",
			err:    "1 failed",
		},
		{
			name: "a package without tests is nothing",
			events: `{"Action":"skip","Package":"p"}
				{"Action":"run","Package":"q","Test":"TestA"}
				{"Action":"pass","Package":"q","Test":"TestA"}
				{"Action":"pass","Package":"q"}`,
			ledger: "pass\tq.TestA\t\n",
			say:    "1 passed, 0 failed, 0 skipped",
		},
		{
			name:   "no event at all is an error",
			events: "go: go.mod file not found",
			say:    "go: go.mod file not found\n",
			err:    "no test events",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger")
			var out strings.Builder
			err := count(strings.NewReader(c.events), &out, path, "^TestOracle")
			ledger, _ := os.ReadFile(path)
			if string(ledger) != c.ledger {
				t.Errorf("the ledger holds %q, want %q", ledger, c.ledger)
			}
			if !strings.Contains(out.String(), c.say) {
				t.Errorf("printed %q, which lacks %q", out.String(), c.say)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}
