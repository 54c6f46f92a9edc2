# fish completion for delayer: delayer completion fish | source
function __delayer_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete -- $words[2..-1] 2>/dev/null
end
complete -c delayer -f -n 'test -n "$(__delayer_complete)"' -a '(__delayer_complete)'
